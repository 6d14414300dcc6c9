#ifndef BULKHEAD_SERVER_OS_PROCESS_CHILD_PROCESS_H_
#define BULKHEAD_SERVER_OS_PROCESS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// How a process ended, and what it used in its life.
struct ProcessExit {
  enum class Outcome { kExited, kSignaled };
  Outcome outcome = Outcome::kExited;
  int code = 0;  // exit code or signal number
  double cpu_seconds = 0;

  // Ended by itself, with code 0.
  bool ok() const { return outcome == Outcome::kExited && code == 0; }
};

// What to run.
struct SpawnSpec {
  std::string program;            // absolute path
  std::vector<std::string> args;  // without argv[0]
  // "NAME=value", in place of this process's own of those names, or, unless it inherits those,
  // alone.
  std::vector<std::string> environment;
  bool inherits_environment = true;
  // Inherited as descriptor 3; every other descriptor but 0, 1 and 2 must be close-on-exec. Stdin
  // is /dev/null.
  int passed_fd = -1;
  // Its standard output and error; -1: this process's own.
  int output_fd = -1;
  // Added to the process's OOM score: the kernel must kill a worker before the supervisor.
  int oom_score_adj = 0;
};

// A child process that dies with the thread that spawned it. Owned by one thread, which must be the
// one that called Spawn and must outlive the child: PR_SET_PDEATHSIG follows the thread.
class ChildProcess {
 public:
  static constexpr int kPassedFd = 3;

  // Starts `spec.program` by vfork and exec, never running our code in a copy of a threaded
  // process. In the child: killed with its parent, no new privileges, its own process group.
  // Errors: NOT_FOUND and the like when exec fails.
  static absl::StatusOr<ChildProcess> Spawn(const SpawnSpec& spec);

  pid_t pid() const { return pid_; }
  // Readable when the process has ended. Owned by this object, and open as long as it lives.
  int pidfd() const { return pidfd_.get(); }
  // Sends a signal through the pidfd; a process that has ended is left alone.
  void Signal(int signal) const;
  // How it ended; absent while it runs. Reaps it: after that the pid is no longer valid.
  std::optional<ProcessExit> TryReap();

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

// A descriptor that becomes readable when process `pid` ends. With `must_be_parent` NOT_FOUND
// unless `pid` is our parent (checked after opening, so that a recycled pid cannot deceive).
absl::StatusOr<UniqueFd> WatchProcess(pid_t pid, bool must_be_parent);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_PROCESS_CHILD_PROCESS_H_
