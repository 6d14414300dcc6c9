#include "server/app/config.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "server/app/config_file.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/version.h"

namespace bulkhead {

namespace {

// "512MiB"; a bare number is refused.
const CLI::Validator kIsSize(
    [](std::string& text) {
      const auto bytes = ParseBytes(text);
      return bytes.ok() ? std::string() : std::string(bytes.status().message());
    },
    "SIZE");

// Options that the file sets and the command line does not.
absl::Status TakeFromFile(const std::string& path, CLI::App& app) {
  DaemonOptions of_file;
  CLI::App file;
  DefineOptions(file, of_file);
  BULKHEAD_RETURN_IF_ERROR(ReadConfigFile(path, file));
  for (const CLI::Option* option : file.get_options()) {
    if (option->count() == 0) continue;
    CLI::Option* const target = app.get_option("--" + option->get_single_name());
    if (target->count() > 0) continue;
    for (const std::string& value : option->results()) target->add_result(value);
    target->run_callback();
  }
  return absl::OkStatus();
}

}  // namespace

void DefineOptions(CLI::App& app, DaemonOptions& options) {
  app.add_option("--config", options.config,
                 "YAML file of options (docs/service.md); options on the command line win");
  app.add_option("--listen", options.listen,
                 "Address: unix:/path, or 127.0.0.1:PORT with --insecure-tcp (port 0 chooses one). "
                 "Default: unix:$XDG_RUNTIME_DIR/bulkhead/loader.sock");
  app.add_option(
      "--root", options.roots,
      "Folder whose files clients may name; repeatable. Without one no file may be read");
  app.add_option("--cache-dir", options.cache_dir,
                 "Folder for record indexes and seek entries. Default: $XDG_CACHE_HOME/bulkhead");
  app.add_option("--cache-bytes", options.cache_bytes,
                 "Disk space for seek entries of JPEG images, which speed up random crops (three "
                 "quarters), and for record indexes (a quarter), such as 4GiB. 0: no seek entries "
                 "are kept, and indexes are not bounded")
      ->capture_default_str();
  app.add_option("--stage-cache-bytes", options.stage_cache_bytes,
                 "Disk space for `cache` stages, such as 100GiB. 0: nothing is kept")
      ->capture_default_str();
  app.add_option("--workers", options.workers,
                 "Worker processes of each pipeline. Default: one per available CPU")
      ->check(CLI::Range(1, 1024));
  app.add_option("--threads", options.threads, "Decode threads of each worker")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--worker-extra-threads", options.worker_extra_threads,
                 "Threads of your stages' libraries that a worker may have beside its own; a "
                 "worker with more is ended")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option("--worker-quota", options.worker_quota,
                 "Memory limit of one worker, such as 512MiB")
      ->check(kIsSize)
      ->capture_default_str();
  app.add_option("--quota-enforcement", options.quota_enforcement,
                 "best-effort: limit workers by what this machine offers, and report the level; "
                 "require_cgroup: do not start unless each worker can have a cgroup; off: do not "
                 "limit them, to measure the cost")
      ->check(CLI::IsMember({"best-effort", "require_cgroup", "off"}))
      ->capture_default_str();
  app.add_option("--sandbox", options.sandbox,
                 "Parts of the workers' sandbox: all, none, or a comma-separated list of seccomp, "
                 "landlock and capabilities")
      ->capture_default_str();
  app.add_option("--worker-hang-timeout", options.hang_seconds,
                 "Seconds at one sample after which a worker is killed and replaced")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  app.add_option("--idle-timeout", options.idle_seconds,
                 "Seconds without taking a batch after which a stream gives up its workers, then "
                 "its place, when others need the memory; it gets them back when it is read again")
      ->check(CLI::Range(0.1, 1e9))
      ->capture_default_str();
  app.add_option("--recycle-samples", options.recycle_samples,
                 "Replace a worker after this many samples. 0: never")
      ->capture_default_str();
  app.add_option("--recycle-age", options.recycle_age_seconds,
                 "Replace a worker after this many seconds. 0: never")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--recycle-slowdown", options.recycle_slowdown,
                 "Replace a worker when a stage takes this many times as long as when the worker "
                 "was new. 0: never")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--recycle-growth", options.recycle_growth,
                 "Replace a worker whose memory grows before it meets the quota; false: let it be "
                 "killed there")
      ->default_str("true");
  app.add_option("--memory-budget", options.memory_budget,
                 "Memory that the supervisor, arenas and workers may take together, such as 8GiB. "
                 "Default: 80% of the memory limit; with --embedded 50% of what is available")
      ->check(kIsSize);
  app.add_option("--attribution", options.attribution,
                 "on or off: count the workers' allocations by stage, to name the stage that leaks")
      ->option_text("on|off [on]");
  app.add_flag("--allow-fault-stages", options.allow_fault_stages,
               "Allow specs with `fault` stages, which leak, crash or hang on purpose, for trials "
               "and tests");
  app.add_flag("--insecure-tcp", options.insecure_tcp,
               "Allow a loopback TCP address, without encryption or authentication: any local user "
               "may connect");
  app.add_option(
      "--metrics", options.metrics,
      "Serve /metrics and /healthz over HTTP on this IP address and port, such as 127.0.0.1:9464 "
      "(port 0 chooses one). Read-only, without authentication. Default: not served");
  app.add_option("--worker-program", options.worker_program,
                 "Path of bulkhead-worker. Default: beside this program");
  app.add_option("--python", options.python,
                 "Interpreter of Python stages: CPython 3.9 or newer with NumPy. Default: python3 "
                 "of PATH");
  app.add_option("--python-path", options.python_path,
                 "Folder that Python stages may import functions from; repeatable. Without one "
                 "there are no Python stages");
  app.add_option("--native-path", options.native_path,
                 "Folder that native stages may load libraries from; repeatable. Without one there "
                 "are no native stages");
  app.add_option(
      "--worker-env", options.worker_env,
      "NAME or NAME=VALUE: an environment variable to pass to workers; repeatable. By default they "
      "get only PATH, HOME, the locale and a few more of the service's variables, so that its "
      "secrets stay private. OMP_NUM_THREADS=4 gives libraries of Python stages more threads");
  app.add_option("--scratch-dir", options.scratch_dir,
                 "Folder on a disk in which each worker with code of yours gets a folder of its "
                 "own, as TMPDIR and HOME. Default: bulkhead-UID in /tmp or /var/tmp, or "
                 "--cache-dir, whichever is on a disk");
  app.add_flag("--embedded", options.embedded,
               "Serve the trainers of one user on this machine: read what the user may read");
  app.add_option("--watch-pid", options.watch_pid, "End when this process, the parent, has ended");
  app.add_option("--watch-lock", options.watch_lock,
                 "End when no process holds a lock (flock) on this file any more; for a service "
                 "that several processes share");
  app.add_option("--ready-fd", options.ready_fd,
                 "Write 'ready ADDRESS' to this descriptor once the service listens");
  app.add_option("--log-level", options.log_level, "trace, debug, info, warn, err or off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "err", "off"}))
      ->capture_default_str();
}

DaemonOptions ParseCommandLine(int argc, char** argv, std::optional<int>& exit_code) {
  DaemonOptions options;
  CLI::App app{
      "bulkheadd - the Bulkhead loader service.\n"
      "Reads and preprocesses data in worker processes and streams batches to trainers."};
  app.set_version_flag("--version", std::string("bulkheadd ") + kVersion);
  DefineOptions(app, options);
  app.footer(
      "Examples:\n"
      "  bulkheadd --root /data\n"
      "  bulkheadd --config bulkheadd.yaml --log-level debug\n"
      "  bulkheadd --root /data --listen 127.0.0.1:7077 --insecure-tcp --workers 4\n");
  try {
    app.parse(argc, argv);
    if (options.config.empty()) return options;
    const absl::Status taken = TakeFromFile(options.config, app);
    if (taken.ok()) return options;
    std::fprintf(stderr, "bulkheadd: %s\n", std::string(taken.message()).c_str());
    exit_code = 2;
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : 2;
  }
  return options;
}

}  // namespace bulkhead
