#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// How a process ended, and what it used in its lifetime.
struct ProcessExit {
  enum class Outcome { kExited, kSignaled };
  Outcome outcome = Outcome::kExited;
  int code = 0;  // exit code or signal number
  double cpu_seconds = 0;

  // Exited with code 0.
  bool ok() const { return outcome == Outcome::kExited && code == 0; }
};

// What to run.
struct SpawnSpec {
  std::string program;            // absolute path
  std::vector<std::string> args;  // without argv[0]
  // "NAME=value". Replaces this process's variables of those names or, without
  // inherits_environment, all of them.
  std::vector<std::string> environment;
  bool inherits_environment = true;
  // Becomes descriptor 3. All other descriptors except 0, 1 and 2 must be close-on-exec. Stdin is
  // /dev/null.
  int passed_fd = -1;
  // Standard output and error; -1: those of this process.
  int output_fd = -1;
  // Added to the process's OOM score, so that the kernel kills workers before the supervisor.
  int oom_score_adj = 0;
};

// A child process that dies with the thread that spawned it, because PR_SET_PDEATHSIG follows the
// thread. Only that thread may use it, and it must outlive the child.
class ChildProcess {
 public:
  static constexpr int kPassedFd = 3;

  // Starts `spec.program` by vfork and exec, so our code never runs in a copy of a threaded
  // process. The child is killed with its parent, gains no privileges, and has its own process
  // group. Errors: NOT_FOUND and the like if exec fails.
  static absl::StatusOr<ChildProcess> Spawn(const SpawnSpec& spec);

  pid_t pid() const { return pid_; }
  // Becomes readable when the process ends. Owned by this object.
  int pidfd() const { return pidfd_.get(); }
  // Sends a signal through the pidfd; no effect on an ended process.
  void Signal(int signal) const;
  // How it ended; absent while it runs. Reaps it: the pid is invalid afterwards.
  std::optional<ProcessExit> TryReap();

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

// A descriptor that becomes readable when process `pid` ends. With `must_be_parent`, NOT_FOUND
// unless `pid` is our parent, which is checked after opening because pids are reused.
absl::StatusOr<UniqueFd> WatchProcess(pid_t pid, bool must_be_parent);

}  // namespace bulkhead
