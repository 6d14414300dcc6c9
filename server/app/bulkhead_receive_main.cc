// bulkhead-receive: started by a trainer's client, for batches of a service on another host; never
// by hand.

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/doors/embedded_folder.h"
#include "server/os/event_loop.h"
#include "server/os/files/fd.h"
#include "server/os/memory/process_memory.h"
#include "server/os/process/child_process.h"
#include "server/receiver/receive_server.h"

namespace {

struct ReceiveOptions {
  std::string address;  // "unix:/path"
  int watch_pid = 0;    // the trainer's process; ends with it
  int ready_fd = -1;
};

// All three options are needed.
bool ParseReceiveOptions(int argc, char** argv, ReceiveOptions& options) {
  std::map<std::string, std::string> given;
  for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
  options.address = given["--listen"];
  return argc == 7 && absl::StartsWith(options.address, "unix:/") &&
         absl::SimpleAtoi(given["--watch-pid"], &options.watch_pid) && options.watch_pid > 0 &&
         absl::SimpleAtoi(given["--ready-fd"], &options.ready_fd) && options.ready_fd >= 0;
}

// SIGTERM as a descriptor. It is blocked in every thread that is started from now on.
bulkhead::UniqueFd WatchTermination() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return bulkhead::UniqueFd(signalfd(-1, &signals, SFD_CLOEXEC));
}

// Serves until the trainer's process ends, or ends this one.
absl::Status RunReceiver(const ReceiveOptions& options, const bulkhead::UniqueFd& termination) {
  fcntl(options.ready_fd, F_SETFD, FD_CLOEXEC);
  BULKHEAD_ASSIGN_OR_RETURN(const bulkhead::UniqueFd trainer,
                            bulkhead::WatchProcess(options.watch_pid, /*must_be_parent=*/true));
  BULKHEAD_ASSIGN_OR_RETURN(std::shared_ptr<bulkhead::EventLoop> loop,
                            bulkhead::EventLoop::Create());
  const std::string path(absl::StripPrefix(options.address, "unix:"));
  BULKHEAD_ASSIGN_OR_RETURN(const auto server, bulkhead::ReceiveServer::Start(loop, path));
  const auto end = [&options] {
    bulkhead::RemoveEmbeddedFolder(options.address, "");
    _exit(0);  // nothing here outlives the trainer
  };
  BULKHEAD_RETURN_IF_ERROR(loop->Watch(trainer.get(), end));
  BULKHEAD_RETURN_IF_ERROR(loop->Watch(termination.get(), end));
  const std::string line = absl::StrCat("ready ", options.address, "\n");
  if (write(options.ready_fd, line.data(), line.size()) < 0) {
    return absl::UnavailableError("the process that started it does not wait for it");
  }
  close(options.ready_fd);
  loop->Run();
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  bulkhead::KeepMemorySteady();
  ReceiveOptions options;
  if (!ParseReceiveOptions(argc, argv, options)) {
    std::fprintf(stderr, "bulkhead-receive is started by a trainer's client, not by hand.\n");
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  const bulkhead::UniqueFd termination = WatchTermination();  // before gRPC has threads
  grpc_init();  // for good: the process ends without waiting for gRPC's threads
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  const absl::Status status = RunReceiver(options, termination);
  std::fprintf(stderr, "bulkhead-receive: %s\n", std::string(status.message()).c_str());
  _exit(1);
}
