#include "server/app/daemon.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/app/access_config.h"
#include "server/app/server_config.h"
#include "server/app/state_dump.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/doors/embedded_folder.h"
#include "server/metrics/metric_table.h"
#include "server/metrics/metrics_server.h"
#include "server/os/event_loop.h"
#include "server/os/files/fd_parcel.h"
#include "server/os/files/filesystem.h"
#include "server/os/memory/process_memory.h"
#include "server/os/process/child_process.h"
#include "server/os/process/service_manager.h"
#include "server/os/sockets/unix_address.h"
#include "server/service/access/tls_credentials.h"
#include "server/service/limits/repeated_lines.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kDrain = absl::Seconds(25);
constexpr absl::Duration kLastWords = absl::Seconds(1);  // what words may take to reach the log
constexpr absl::Duration kLockTick = absl::Seconds(1);   // between looks at --watch-lock

// The signals that the service handles, as a descriptor. They are blocked in every thread started
// from now on.
UniqueFd WatchSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f` is refused with an error, too
  return UniqueFd(signalfd(-1, &signals, SFD_CLOEXEC));
}

// gRPC's log is about gRPC itself; our own errors have what a user needs to know. But of a client
// that does not get through its handshake, gRPC alone knows.
void TellLineOfGrpc(gpr_log_func_args* line) {
  static RepeatedLines& handshakes = *new RepeatedLines;
  const absl::string_view text = line->message;
  spdlog::debug("gRPC: {}", line->message);
  if (!absl::StartsWith(text, "Handshake failed")) return;
  if (const auto untold = handshakes.Take(MonotonicNanos())) {
    // The last words of "… SSL_ERROR_SSL: error:0A0000C1:SSL routines::no shared cipher."
    const std::string why(absl::StripSuffix(text.substr(text.rfind(':') + 1), "."));
    spdlog::warn("a client fails in its TLS handshake: {}{}", why, UntoldText(*untold, "failures"));
  }
}

void AnnounceReady(int ready_fd, const std::string& address) {
  if (ready_fd < 0) return;
  const std::string line = absl::StrCat("ready ", address, "\n");
  if (write(ready_fd, line.data(), line.size()) < 0) {
    spdlog::warn("the process that started this service no longer waits for it");
  }
  close(ready_fd);
}

// The other processes that the service serves; descriptors that are not open mean none.
struct Trainers {
  UniqueFd process;  // it ended when this is readable
  UniqueFd lock;     // they are gone when it can be locked
};

absl::StatusOr<Trainers> WatchTrainers(const DaemonOptions& options) {
  Trainers trainers;
  if (options.watch_pid > 0) {
    BULKHEAD_ASSIGN_OR_RETURN(trainers.process,
                              WatchProcess(options.watch_pid, /*must_be_parent=*/true));
  }
  if (!options.watch_lock.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(trainers.lock, OpenFile(options.watch_lock, /*writable=*/true));
  }
  return trainers;
}

// Runs TrimEmbeddedLog on `io` if that is `idle`: while the disk has not answered the last call, no
// other is made.
void TrimLogSoon(const std::string& address, const std::string& watch_lock, IoThread& io,
                 const std::shared_ptr<std::atomic<bool>>& idle) {
  if (!idle->exchange(false)) return;
  const bool posted = io.Post([address, watch_lock, idle] {
    TrimEmbeddedLog(address, watch_lock);
    *idle = true;
  });
  if (!posted) *idle = true;
}

// The parts that SIGHUP changes.
struct Reloaded {
  DaemonOptions options;  // as they were at the start
  std::string address;
  AccessRights access;
  std::shared_ptr<TlsFiles> tls;  // null: none
};

absl::StatusOr<AccessRights> NewRights(const absl::StatusOr<DaemonOptions>& options,
                                       const Reloaded& running) {
  if (!options.ok()) return options.status();
  absl::StatusOr<AccessRights> rights = RightsOf(*options, running.address, running.tls);
  return rights.ok() ? rights : WithOrigins(rights.status(), *options);
}

// Blocks for the disk.
void Reload(const Reloaded& running, const ReadOptions& read_options) {
  absl::StatusOr<DaemonOptions> options = read_options();
  const absl::StatusOr<AccessRights> rights = NewRights(options, running);
  if (!rights.ok()) {
    spdlog::error("SIGHUP: {}; nothing has changed", std::string(rights.status().message()));
    return;
  }
  spdlog::set_level(spdlog::level::from_str(options->log_level));
  running.access.Replace(*rights);
  const absl::Status files = running.tls != nullptr ? running.tls->Refresh() : absl::OkStatus();
  if (files.ok()) {
    spdlog::info("SIGHUP: log level, rights and TLS files were read again");
  } else {
    spdlog::error(
        "SIGHUP: log level and rights were read again; the TLS files that were valid last stay in "
        "use: {}",
        std::string(files.message()));
  }
  const DaemonOptions& before = running.options;
  options->log_level = before.log_level;
  options->allow_stream = before.allow_stream;
  options->allow_status = before.allow_status;
  options->allow_operate = before.allow_operate;
  options->allow_code = before.allow_code;
  options->token_rights = before.token_rights;
  if (*options == before) return;
  spdlog::warn("SIGHUP: other options have changed, too; they take effect at the next start");
}

// The first line of the log: what the service is, and what it may take.
void SayWhatItIs(LoaderServer& server, const ServiceLimits& limits) {
  const v1::GetStatusResponse status = server.Status().value_or(v1::GetStatusResponse());
  const v1::MemoryBudget& memory = status.memory();
  const uint64_t most = limits.tuning.has_value() ? limits.tuning->most : limits.workers;
  // How many workers a pipeline has, if there are at most so many: "2", "2 to 8".
  const auto workers = [&](uint64_t fitting) {
    const uint64_t first = std::min<uint64_t>(limits.workers, fitting);
    const uint64_t last = std::min(most, fitting);
    return absl::StrCat(first, first < last ? absl::StrCat(" to ", last) : "");
  };
  // Beside nothing else.
  const uint64_t promised = memory.supervisor_bytes() + memory.replacement_bytes();
  const uint64_t held = (memory.budget_bytes() - std::min(memory.budget_bytes(), promised)) /
                        limits.worker_quota_bytes;
  spdlog::info(
      "listening on {}; {} workers × {} threads for each pipeline, each with a quota of {} ({}), "
      "in a memory budget of {}{}; bulkheadd {}, boot {}",
      server.address(), workers(held), limits.threads, FormatBytes(limits.worker_quota_bytes),
      status.containment().quota_level(), FormatBytes(memory.budget_bytes()),
      held < most ? absl::StrCat(", which holds no more of ", workers(most)) : "", status.version(),
      status.boot_id());
}

// Logs what the service is doing, unless it is still writing such a log.
void DumpState(LoaderServer& server, const std::shared_ptr<std::atomic<bool>>& idle) {
  if (!idle->exchange(false)) return;
  // Not on this thread, since it waits for the supervisor.
  const absl::Status started = server.RunAside([&server, idle] {
    const std::optional<v1::GetStatusResponse> status = server.Status();
    if (status.has_value()) {
      for (const std::string& line : StateDump(*status)) spdlog::info("SIGUSR1: {}", line);
    }
    *idle = true;
  });
  if (started.ok()) return;
  *idle = true;
  spdlog::error("SIGUSR1: {}", std::string(started.message()));
}

// Blocks until a signal ends the service or the trainers have ended; returns which. Other signals
// go to `on_signal`. A lock that was taken is kept until this process has ended, so that a process
// that wants to share the service sees that it is too late.
std::string WaitForEnd(int signal_fd, const Trainers& trainers, const DaemonOptions& options,
                       const std::string& address, IoThread& io,
                       const std::function<void(uint32_t signal)>& on_signal) {
  // poll() ignores a negative descriptor.
  pollfd events[2] = {{signal_fd, POLLIN, 0}, {trainers.process.get(), POLLIN, 0}};
  const auto idle = std::make_shared<std::atomic<bool>>(true);
  const int tick_ms = trainers.lock ? static_cast<int>(absl::ToInt64Milliseconds(kLockTick)) : -1;
  for (;;) {
    const int count = poll(events, 2, tick_ms);
    if (count < 0 && errno == EINTR) continue;
    if (count != 0 && events[0].revents == 0) return "the end of its trainer";
    if (count != 0) {
      signalfd_siginfo signal{};
      if (read(signal_fd, &signal, sizeof(signal)) < 0) continue;
      if (signal.ssi_signo == SIGTERM || signal.ssi_signo == SIGINT) return "a signal";
      on_signal(signal.ssi_signo);
      continue;
    }
    if (TryLockFile(trainers.lock.get())) return "the end of its trainers";
    if (options.embedded) TrimLogSoon(address, options.watch_lock, io, idle);
  }
}

// Serves the metrics of `server`, which outlives the result; nothing without an address.
absl::StatusOr<std::unique_ptr<MetricsServer>> StartMetrics(const std::string& address,
                                                            bool has_access_rights,
                                                            LoaderServer* server) {
  if (address.empty()) return nullptr;
  MetricsServer::Config config;
  config.address = address;
  config.metrics = [server] {
    std::optional<v1::GetStatusResponse> status = server->Status();
    // While the supervisor is silent its totals are not known, and totals must never go down.
    if (!status.has_value() || status->supervisor_silent_seconds() > 0) {
      return CollectMetrics(std::nullopt);
    }
    return CollectMetrics(StatusSnapshot(*std::move(status), server->RecyclingCounts()));
  };
  config.is_serving = [server] { return server->is_serving(); };
  // Whoever may connect here has no name, so where names have rights this tells no status.
  if (!has_access_rights) config.status = [server] { return server->Status(); };
  BULKHEAD_ASSIGN_OR_RETURN(std::unique_ptr<MetricsServer> metrics,
                            MetricsServer::Start(std::move(config)));
  spdlog::info("metrics on {}", metrics->url());
  return metrics;
}

}  // namespace

absl::Status RunDaemon(const DaemonOptions& options, LogOutput& log, ReadOptions read_options) {
  TlsCredentials::AllowOnlyTls13();
  // Before any thread exists, so that all inherit the mask.
  const UniqueFd signals = WatchSignals();
  const ServiceManager manager =
      options.embedded ? ServiceManager() : ServiceManager::FromEnvironment();
  RaiseFdLimit();  // for the indexes of large data sets
  // The last grpc_shutdown waits for gRPC's pollers, up to ten seconds. This grpc_init has no
  // counterpart, so that call never is the last: the process ends instead.
  grpc_init();
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  gpr_set_log_function(TellLineOfGrpc);
  if (options.ready_fd >= 0) fcntl(options.ready_fd, F_SETFD, FD_CLOEXEC);
  BULKHEAD_ASSIGN_OR_RETURN(const Trainers trainers, WatchTrainers(options));
  BULKHEAD_ASSIGN_OR_RETURN(LoaderServer::Config config, MakeServerConfig(options));
  const ServiceLimits limits = config.limits;
  const Reloaded running{options, config.address, config.access, config.tls};
  BULKHEAD_ASSIGN_OR_RETURN(const std::shared_ptr<IoThread> io, IoThread::Start());
  config.supervisor.io = io;
  config.supervisor.worker_output = [&log] { return log.Connect(); };
  config.log_lines_dropped = [&log] { return log.lines_dropped(); };
  BULKHEAD_ASSIGN_OR_RETURN(std::unique_ptr<LoaderServer> server,
                            LoaderServer::Start(std::move(config)));
  SayWhatItIs(*server, limits);
  if (!options.embedded) {
    for (const std::string& name : UnknownVariables()) {
      spdlog::warn("the environment sets an option that there is not: {}", name);
    }
  }
  if (options.roots.empty() && !options.embedded) {
    spdlog::warn("no --root was given: clients may read no files");
  }
  for (const std::string& root : options.roots) {
    if (IsObjectUrl(root) || access(root.c_str(), R_OK | X_OK) == 0) continue;
    spdlog::warn(
        "--root {}: the service's user, {}, may not read it ({}); streams of files there will "
        "fail: let that user read the folder and all above it",
        root, geteuid(), std::strerror(errno));
  }
  BULKHEAD_ASSIGN_OR_RETURN(const std::unique_ptr<MetricsServer> metrics,
                            StartMetrics(options.metrics, running.tls != nullptr, server.get()));
  TakePagesAhead();
  // For `bulkhead status`; a service that cannot leave the note serves all the same.
  UniqueFd note;
  if (!absl::StartsWith(server->address(), "unix:")) {
    note = NoteAddress(server->address()).value_or(UniqueFd());
  }
  log.Flush(kLastWords);  // what was said stands there before anybody asks
  AnnounceReady(options.ready_fd, server->address());
  const std::string listening = absl::StrCat("listening on ", server->address());
  manager.TellReady(listening);
  const auto can_dump = std::make_shared<std::atomic<bool>>(true);
  const std::string cause =
      WaitForEnd(signals.get(), trainers, options, server->address(), *io, [&](uint32_t signal) {
        if (signal == SIGUSR1) return DumpState(*server, can_dump);
        manager.TellReloading();
        // Shared, because a call that hangs on the disk may outlive the service.
        const bool posted = io->Post([running, read_options, manager, listening] {
          Reload(running, read_options);
          manager.TellReady(listening);
        });
        if (!posted) {
          spdlog::error("SIGHUP changed nothing: the disk of the cache or log folder hangs");
          manager.TellReady(listening);
        }
      });
  manager.TellStopping();
  spdlog::info("stopping because of {}", cause);
  const bool clean = server->Shutdown(options.embedded ? absl::Seconds(1) : kDrain);
  if (options.embedded) RemoveEmbeddedFolder(server->address(), options.watch_lock);
  if (!clean) {
    spdlog::error("a call does not end, its storage may hang; the service ends without it");
    log.Flush(kLastWords);
    _exit(1);
  }
  return absl::OkStatus();
}

}  // namespace bulkhead
