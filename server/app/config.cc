#include "server/app/config.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/app/config_file.h"
#include "server/app/mistake.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/nearest_name.h"
#include "server/base/version.h"
#include "server/service/limits/open_rate.h"

namespace bulkhead {

namespace {

// A number of these bounds.
template <typename Number>
CLI::Validator Between(Number least, Number most, absl::string_view unit = "",
                       absl::string_view also = "") {
  return CLI::Validator(
      [=, unit = std::string(unit), also = std::string(also)](const std::string& given) {
        Number value = 0;
        bool is_number = false;
        if constexpr (std::is_integral_v<Number>) {
          is_number = absl::SimpleAtoi(given, &value);
        } else {
          is_number = absl::SimpleAtod(given, &value);
        }
        if (is_number && value >= least && value <= most) return std::string();
        return absl::StrCat("must be ", also, least, " to ", most, unit, ", not '", given, "'");
      },
      "");
}

// A number of workers; "auto" becomes 0.
const CLI::Validator kIsWorkers(
    [](std::string& given) {
      if (given == "auto") {
        given = "0";
        return std::string();
      }
      return Between(1, 1024, "", "auto, or ")(given);
    },
    "");

const CLI::Validator kIsSwitch(
    [](const std::string& given) {
      try {
        (void)CLI::detail::to_flag_value(given);
        return std::string();
      } catch (const std::exception&) {
        return absl::StrCat("must be on or off, not '", given, "'");
      }
    },
    "");

// "512MiB"; a bare number is refused.
const CLI::Validator kIsSize(
    [](std::string& text) {
      const auto bytes = ParseBytes(text);
      return bytes.ok() ? std::string() : std::string(bytes.status().message());
    },
    "SIZE");

// Options that the file sets and the command line does not.
absl::Status TakeFromFile(const std::string& path, CLI::App& app, OptionOrigins& origins) {
  DaemonOptions of_file;
  CLI::App file;
  DefineOptions(file, of_file);
  std::map<std::string, std::string> places;
  BULKHEAD_RETURN_IF_ERROR(ReadConfigFile(path, file, &places));
  for (const CLI::Option* option : file.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = option->get_single_name();
    CLI::Option* const target = app.get_option("--" + name);
    if (target->count() > 0) continue;
    origins.by_name[name] = "at " + places[name];
    for (const std::string& value : option->results()) target->add_result(value);
    target->run_callback();
  }
  return absl::OkStatus();
}

constexpr absl::string_view kVariable = "BULKHEADD_";

// "BULKHEADD_WORKER_QUOTA" for "worker-quota".
std::string VariableOf(const std::string& name) {
  return absl::StrCat(kVariable, absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
}

// Options that the environment sets and the command line does not.
absl::Status TakeFromEnvironment(CLI::App& app, OptionOrigins& origins) {
  for (CLI::Option* const option : app.get_options()) {
    const std::string name = option->get_single_name();
    if (name == "help" || name == "version" || option->count() > 0) continue;
    const std::string variable = VariableOf(name);
    const char* const value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    origins.by_name[name] = "by " + variable;
    const bool is_flag = option->get_expected_max() == 0;
    if (is_flag && absl::string_view(value) != "true" && absl::string_view(value) != "false") {
      return Mistake(variable, "=", value, ": is not a boolean; write true or false");
    }
    if (option->get_expected_max() > 1) {
      for (const absl::string_view item : absl::StrSplit(value, ',', absl::SkipWhitespace())) {
        option->add_result(std::string(absl::StripAsciiWhitespace(item)));
      }
    } else {
      option->add_result(value);
    }
    try {
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      return Mistake(variable, ": ", error.what());
    }
  }
  return absl::OkStatus();
}

// Sets options that the command line does not: from the environment, then from the file.
absl::Status TakeTheRest(CLI::App& app, DaemonOptions& options) {
  // A service that a trainer starts for itself is configured by that trainer alone.
  if (!options.embedded) BULKHEAD_RETURN_IF_ERROR(TakeFromEnvironment(app, options.origins));
  if (options.config.empty()) return absl::OkStatus();
  return TakeFromFile(options.config, app, options.origins);
}

// "unknown option '--worker'; did you mean '--workers'?"
std::string UnknownArgument(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining();
  const auto option = std::ranges::find_if(
      rest, [](const std::string& word) { return absl::StartsWith(word, "-"); });
  if (option == rest.end()) {
    return absl::StrCat("'", rest.empty() ? "" : rest[0],
                        "' is too much; options begin with --, and `bulkheadd --help` lists them");
  }
  std::vector<std::string> names;
  for (const CLI::Option* known : app.get_options()) {
    names.push_back("--" + known->get_single_name());
  }
  const std::string typed = option->substr(0, option->find('='));
  const std::string near = NearestName(typed, names);
  return absl::StrCat(
      "unknown option '", typed, "'; ",
      near.empty() ? "`bulkheadd --help` lists all" : absl::StrCat("did you mean '", near, "'?"));
}

// Adds an option whose default stands in the help.
template <typename Value>
CLI::Option* AddShown(CLI::App& app, const char* name, Value& value, const std::string& help) {
  return app.add_option(name, value, help)->capture_default_str();
}

// Where it is reached, and what it may read and keep.
void DefinePlaces(CLI::App& app, DaemonOptions& options) {
  app.add_option(
      "--config", options.config,
      "YAML file of options (docs/service.md). The command line takes precedence over the "
      "environment (BULKHEADD_WORKER_QUOTA for --worker-quota), and that over the file");
  app.add_option("--listen", options.listen,
                 "Address: unix:/path, or HOST:PORT with --tls-cert (port 0 chooses one). Default: "
                 "unix:$XDG_RUNTIME_DIR/bulkhead/loader.sock, or "
                 "unix:/tmp/bulkhead-UID/loader.sock without that variable");
  app.add_option("--root", options.roots,
                 "Folder whose files specs may read, or URL below which they may read objects "
                 "(s3://bucket/train); repeatable. Without one, no file can be read");
  app.add_option("--cache-dir", options.cache_dir,
                 "Folder for record indexes, seek entries, coefficients and what is kept of object "
                 "stores. Default: $XDG_CACHE_HOME/bulkhead");
  AddShown(app, "--cache-bytes", options.cache_bytes,
           "Disk space, such as 4GiB: three quarters for seek entries of JPEG images, which speed "
           "up random crops, and a quarter for record indexes. 0: keep no seek entries, and do not "
           "limit indexes");
  AddShown(
      app, "--coefficient-cache-bytes", options.coefficient_cache_bytes,
      "Disk space, such as 300GiB, for coefficients of JPEG images: with them later epochs decode "
      "twice as fast. They take twice the space of the files; what has no room is decoded as "
      "before. auto: 16GiB, but at most a tenth of what is free on the disk. 0: keep none");
  AddShown(app, "--block-cache-bytes", options.block_cache_bytes,
           "Disk space, such as 300GiB, for data read from object stores (s3://, gs://, http://), "
           "which later epochs then read from the disk. auto: 16GiB, but at most a tenth of what "
           "is free on the disk. 0: keep only what is about to be read");
  AddShown(app, "--stage-cache-bytes", options.stage_cache_bytes,
           "Disk space for `cache` stages, such as 100GiB. 0: they keep nothing");
}

// Workers and their limits.
void DefineWorkers(CLI::App& app, DaemonOptions& options) {
  app.add_option("--workers", options.workers,
                 "Worker processes of each pipeline. auto: one per available CPU at first, then as "
                 "many as its clients need and the memory budget holds")
      ->transform(kIsWorkers)
      ->option_text("NUMBER|auto [auto]");
  AddShown(app, "--threads", options.threads, "Decode threads of each worker")
      ->check(Between(1, 256));
  AddShown(app, "--worker-extra-threads", options.worker_extra_threads,
           "Threads that your stages' libraries may run in a worker, besides its own; a worker "
           "with more is ended")
      ->check(Between(0, 4096));
  AddShown(app, "--worker-quota", options.worker_quota,
           "Memory limit of one worker, such as 512MiB")
      ->check(kIsSize);
  AddShown(app, "--quota-enforcement", options.quota_enforcement,
           "best-effort: limit workers by the means of this machine, and report the level; "
           "require_cgroup: do not start unless each worker can have a cgroup; off: no limits, to "
           "measure their cost")
      ->check(CLI::IsMember({"best-effort", "require_cgroup", "off"}));
  AddShown(app, "--sandbox", options.sandbox,
           "Parts of the workers' sandbox: all, none, or a comma-separated list of seccomp, "
           "landlock and capabilities");
  AddShown(app, "--worker-hang-timeout", options.hang_seconds,
           "Kill and replace a worker after this many seconds at one sample")
      ->check(Between(0.1, 86400.0, " seconds"));
}

// How long clients may be idle, and how often they may open streams.
void DefineTimeouts(CLI::App& app, DaemonOptions& options) {
  AddShown(app, "--idle-timeout", options.idle_seconds,
           "When others need its memory, a stream whose client took no batch for this many seconds "
           "gives up its workers, then its place; it gets them back when it is read again")
      ->check(Between(0.1, 1e9, " seconds"));
  AddShown(app, "--share-window", options.share_window,
           "Made batches that streams opened with `share` keep for those behind; one that is "
           "further behind makes its own. 0: streams share nothing")
      ->check(Between(0, 64, " batches"));
  AddShown(app, "--open-rate", options.openings_per_second,
           absl::StrCat("Openings per second that one client may sustain: streams opened and specs "
                        "described. Bursts: ",
                        OpenRate::kBurstOfConnection, " per connection, ", OpenRate::kBurstOfClient,
                        " per client. A client is identified by its certificate's name; without "
                        "one, by its process on a Unix socket or its host over TCP. 0: no limit"))
      ->check(Between(0.0, 1e6));
  AddShown(app, "--connection-idle-timeout", options.connection_idle_seconds,
           "Close a client's connection after this many seconds without a call")
      ->check(Between(0.1, 86400.0, " seconds"));
}

// When workers are replaced, and what all memory is.
void DefineRecycling(CLI::App& app, DaemonOptions& options) {
  AddShown(app, "--recycle-samples", options.recycle_samples,
           "Replace a worker after this many samples. 0: never");
  AddShown(app, "--recycle-age", options.recycle_age_seconds,
           "Replace a worker after this many seconds. 0: never")
      ->check(Between(0.0, 1e9, " seconds"));
  AddShown(app, "--recycle-slowdown", options.recycle_slowdown,
           "Replace a worker when a stage takes this many times as long as when the worker was "
           "new. 0: never")
      ->check(Between(0.0, 1e6));
  app.add_option("--recycle-growth", options.recycle_growth,
                 "Replace a worker whose memory grows before it reaches its quota; false: let it "
                 "be killed at its quota")
      ->check(kIsSwitch)
      ->default_str("true");
  app.add_option("--memory-budget", options.memory_budget,
                 "Memory that the supervisor, arenas and workers may use together, such as 8GiB. "
                 "Default: 80% of the memory limit; with --embedded 50% of what is available")
      ->check(kIsSize);
  app.add_option("--attribution", options.attribution,
                 "on or off: count the workers' allocations by stage, to name the stage that leaks")
      ->check(kIsSwitch)
      ->option_text("on|off [on]");
  app.add_option("--trace-python", options.trace_python,
                 "on or off: have workers of Python stages trace Python's allocations, to name the "
                 "line that leaks; slows Python code down")
      ->check(kIsSwitch)
      ->option_text("on|off [off]");
}

// Who may do what.
void DefineAccess(CLI::App& app, DaemonOptions& options) {
  app.add_flag("--allow-fault-stages", options.allow_fault_stages,
               "Allow specs with `fault` stages, which leak, crash or hang on purpose, for tests");
  app.add_flag(
      "--allow-datasets", options.allow_datasets,
      "Take datasets of clients with the right `code`: pickled code and data, which workers of "
      "--python run in their sandbox; over TCP from clients with certificates or the token");
  app.add_option(
         "--dataset-bytes", options.dataset_bytes,
         "Memory for such datasets, all together, such as 8GiB; it counts towards --memory-budget")
      ->check(kIsSize)
      ->default_str("1GiB");
  app.add_flag("--insecure-tcp", options.insecure_tcp,
               "Allow a loopback TCP address, without encryption or authentication: any local user "
               "may connect");
  app.add_option("--tls-cert", options.tls_cert,
                 "PEM file with the service's certificate and those that signed it, for TLS 1.3 on "
                 "a TCP address. Read again when it changes, as are the files below");
  app.add_option("--tls-key", options.tls_key, "PEM file with the key of --tls-cert");
  app.add_option("--tls-client-ca", options.tls_client_ca,
                 "PEM file of the authority that signs clients' certificates");
  app.add_option(
      "--allow-stream", options.allow_stream,
      "Name in a client's certificate (an alternative name, else the common name) that may stream "
      "and describe specs; repeatable; * allows every certificate that --tls-client-ca signed");
  app.add_option("--allow-status", options.allow_status,
                 "Like --allow-stream: name that may ask for the status; repeatable");
  app.add_option("--allow-operate", options.allow_operate,
                 "Like --allow-stream: name that may recycle workers, and see and change the "
                 "quarantine; repeatable");
  app.add_option("--allow-code", options.allow_code,
                 "Like --allow-stream: name that may bring datasets, which are code "
                 "(--allow-datasets); repeatable");
  app.add_option("--token-instead-of-certificate", options.token_instead_of_certificate,
                 "File with a token. Clients that show it need no certificate, so strangers get as "
                 "far as gRPC's parser before they are refused (docs/security.md)");
  app.add_option("--token-rights", options.token_rights,
                 "Rights of clients with the token: stream, status, operate, code; repeatable. "
                 "Default: stream and status")
      ->check(CLI::IsMember({"stream", "status", "operate", "code"}));
}

// What is served beside, and the programs and folders of workers.
void DefinePrograms(CLI::App& app, DaemonOptions& options) {
  app.add_option(
      "--metrics", options.metrics,
      "Serve /metrics and /healthz over HTTP on this IP address and port, such as 127.0.0.1:9464 "
      "(port 0 chooses one). Read-only, without authentication. Default: off");
  app.add_flag("--insecure-metrics", options.insecure_metrics,
               "Allow --metrics on an address beyond the loopback: anyone who can connect may read "
               "the metrics");
  app.add_option("--worker-program", options.worker_program,
                 "Path of bulkhead-worker. Default: in this program's folder");
  app.add_option(
      "--python", options.python,
      "Interpreter of Python stages: CPython 3.9 or newer with NumPy. Default: python3 from PATH");
  app.add_option("--python-path", options.python_path,
                 "Folder that Python stages may import functions from; repeatable. Without one, "
                 "Python stages are refused");
  app.add_option("--native-path", options.native_path,
                 "Folder that native stages may load libraries from; repeatable. Without one, "
                 "native stages are refused");
  app.add_option(
      "--worker-env", options.worker_env,
      "NAME or NAME=VALUE: an environment variable to pass to workers; repeatable. By default they "
      "get only PATH, HOME, the locale and a few other variables of the service, so that its "
      "secrets stay private. OMP_NUM_THREADS=4 gives libraries of Python stages more threads");
  app.add_option("--scratch-dir", options.scratch_dir,
                 "Folder on a disk (not tmpfs) in which each worker that runs your code gets its "
                 "own TMPDIR and HOME. Default: bulkhead-UID/scratch in /tmp or /var/tmp, or "
                 "scratch in --cache-dir, whichever is on a disk");
}

// For who starts it, and the log.
void DefineProcess(CLI::App& app, DaemonOptions& options) {
  app.add_flag("--embedded", options.embedded,
               "Serve the trainers of one user on this machine: read what the user may read");
  app.add_option("--dataset", options.dataset,
                 "With --embedded: files in the trainer's memory, its dataset, the lists of its "
                 "sampler, and other datasets of a mixture, which Python stages may read");
  app.add_option("--watch-pid", options.watch_pid,
                 "Exit when this process, which must be the parent, has ended");
  app.add_option("--watch-lock", options.watch_lock,
                 "Exit when no process holds a lock (flock) on this file any more, for a service "
                 "that several processes share");
  app.add_option("--ready-fd", options.ready_fd,
                 "Write 'ready ADDRESS' to this descriptor once the service listens");
  AddShown(app, "--log-level", options.log_level, "trace, debug, info, warn, err or off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "err", "off"}));
  AddShown(app, "--log-format", options.log_format,
           "text, or json: an object with time, level and text on each line")
      ->check(CLI::IsMember({"text", "json"}));
  app.add_option(
      "--log-file", options.log_file,
      "Write the log to this file as well; when it exceeds 2 MiB, its older half is removed");
}

}  // namespace

void DefineOptions(CLI::App& app, DaemonOptions& options) {
  for (const auto define : {DefinePlaces, DefineWorkers, DefineTimeouts, DefineRecycling,
                            DefineAccess, DefinePrograms, DefineProcess}) {
    define(app, options);
  }
}

absl::StatusOr<DaemonOptions> OptionsOf(int argc, char** argv, std::optional<int>& exit_code) {
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
      "  bulkheadd --root /data --listen 127.0.0.1:7077 --insecure-tcp --workers 4\n"
      "  bulkheadd --root /data --listen 0.0.0.0:7077 --tls-cert server.pem --tls-key server.key "
      "\\\n"
      "            --tls-client-ca ca.pem --allow-stream trainer --allow-status trainer\n");
  try {
    app.parse(argc, argv);
    BULKHEAD_RETURN_IF_ERROR(TakeTheRest(app, options));
    return options;
  } catch (const CLI::ExtrasError&) {
    return Mistake(UnknownArgument(app));
  } catch (const CLI::Success& asked) {  // --help, --version
    exit_code = app.exit(asked);
    return options;
  } catch (const CLI::ParseError& error) {
    return Mistake(error.what(), "; `bulkheadd --help` tells more");
  }
}

DaemonOptions ParseCommandLine(int argc, char** argv, std::optional<int>& exit_code) {
  const absl::StatusOr<DaemonOptions> options = OptionsOf(argc, argv, exit_code);
  if (options.ok()) return *options;
  std::fprintf(stderr, "bulkheadd: %s\n", std::string(options.status().message()).c_str());
  exit_code = 2;
  return DaemonOptions();
}

absl::Status WithOrigins(const absl::Status& mistake, const DaemonOptions& options) {
  std::string message(mistake.message());
  for (const auto& [name, origin] : options.origins.by_name) {
    const std::string flag = "--" + name;
    const size_t begin = mistake.message().find(flag);
    if (begin == absl::string_view::npos) continue;
    const absl::string_view rest = mistake.message().substr(begin + flag.size());
    if (!rest.empty() && (rest[0] == '-' || absl::ascii_isalnum(rest[0])))
      continue;  // a longer one
    absl::StrAppend(&message, "; ", flag, " is set ", origin);
  }
  return absl::Status(mistake.code(), message);
}

std::vector<std::string> UnknownVariables() {
  DaemonOptions options;
  CLI::App app;
  DefineOptions(app, options);
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    known.push_back(VariableOf(option->get_single_name()));
  }
  std::vector<std::string> unknown;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string name(*variable, std::strcspn(*variable, "="));
    // Kubernetes makes those for a Service of this name.
    const absl::string_view rest = absl::StripPrefix(name, kVariable);
    const bool is_link = absl::StartsWith(rest, "PORT") || absl::StartsWith(rest, "SERVICE_");
    if (!absl::StartsWith(name, kVariable) || is_link ||
        std::ranges::find(known, name) != known.end()) {
      continue;
    }
    const std::string near = NearestName(name, known);
    unknown.push_back(near.empty() ? name : absl::StrCat(name, "; did you mean ", near, "?"));
  }
  return unknown;
}

}  // namespace bulkhead
