#include "tools/measure/own_service.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

extern char** environ;

namespace bulkhead::tools {
namespace {

constexpr int kReadyFd = 3;  // in the service

absl::Status Failed(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("cannot start a service: ", what));
}

std::string Program() {
  const char* variable = getenv("BULKHEAD_SERVER");
  if (variable != nullptr && *variable != '\0') return variable;
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "bulkheadd";
}

// Whether the service said that it listens; false when it ended before.
bool AwaitReady(int fd) {
  std::string said;
  char buffer[256];
  while (said.find('\n') == std::string::npos) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    said.append(buffer, static_cast<size_t>(count));
  }
  return said.rfind("ready", 0) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OwnService>> OwnService::Start(uint32_t workers,
                                                              std::vector<std::string> more) {
  // Not in TMPDIR, which may be too long for a socket's path.
  BULKHEAD_ASSIGN_OR_RETURN(TemporaryFolder folder, TemporaryFolder::Make("service", "/tmp"));
  std::unique_ptr<OwnService> service(new OwnService(std::move(folder), workers, std::move(more)));
  BULKHEAD_RETURN_IF_ERROR(service->Launch());
  return service;
}

OwnService::OwnService(TemporaryFolder folder, uint32_t workers, std::vector<std::string> more)
    : folder_(std::move(folder)),
      target_(absl::StrCat("unix:", folder_.path(), "/s.sock")),
      workers_(workers),
      more_(std::move(more)) {}

OwnService::~OwnService() { End(SIGTERM); }

absl::Status OwnService::KillAndRestart() {
  End(SIGKILL);
  return Launch();
}

absl::Status OwnService::Launch() {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) return Failed(strerror(errno));
  // Out of the way of the number that the service is told; dup2 onto itself would keep CLOEXEC.
  const int child_end = fcntl(ready[1], F_DUPFD_CLOEXEC, kReadyFd + 1);
  close(ready[1]);
  std::vector<std::string> arguments = {
      Program(),   "--embedded", "--watch-pid", absl::StrCat(getpid()),
      "--listen",  target_,      "--ready-fd",  absl::StrCat(kReadyFd),
      "--threads", "1",          "--log-level", "off"};
  if (std::find(more_.begin(), more_.end(), "--cache-dir") == more_.end()) {
    arguments.insert(arguments.end(), {"--cache-dir", absl::StrCat(folder_.path(), "/cache")});
  }
  if (workers_ > 0) arguments.insert(arguments.end(), {"--workers", absl::StrCat(workers_)});
  arguments.insert(arguments.end(), more_.begin(), more_.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, child_end, kReadyFd);
  posix_spawn_file_actions_addclosefrom_np(&actions, kReadyFd + 1);
  const int error = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(child_end);
  absl::Status status;
  if (error != 0) {
    pid_ = -1;
    status = Failed(absl::StrCat(arguments[0], ": ", strerror(error)));
  } else if (!AwaitReady(ready[0])) {
    status = Failed("it ended before it listened");
  }
  close(ready[0]);
  return status;
}

void OwnService::End(int signal) {
  if (pid_ <= 0) return;
  kill(pid_, signal);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace bulkhead::tools
