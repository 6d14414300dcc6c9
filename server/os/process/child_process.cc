#include "server/os/process/child_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace bulkhead {
namespace {

// What the child does between vfork and exec: only system calls, on memory prepared before. Leaves
// an error number in `child_error`, which the parent sees because both share memory until exec.
struct ChildPlan {
  const SpawnSpec& spec;
  char* const* argv;
  char* const* envp;
  int null_fd;
  absl::string_view oom_score_adj;
  pid_t parent;
  sigset_t signal_mask = {};
  volatile int child_error = 0;
};

[[noreturn]] void EndChild(ChildPlan& plan, int error) {
  plan.child_error = error;
  _exit(127);
}

[[noreturn]] void RunChild(ChildPlan& plan) {
  // Checked again, because a parent that died before the prctl would not end the child.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != plan.parent) {
    EndChild(plan, ESRCH);
  }
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  setpgid(0, 0);
  const int oom = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (oom >= 0 && write(oom, plan.oom_score_adj.data(), plan.oom_score_adj.size()) < 0) {
    // Best effort: otherwise the kernel chooses.
  }
  dup2(plan.null_fd, 0);
  if (plan.spec.output_fd >= 0 &&
      (dup2(plan.spec.output_fd, 1) < 0 || dup2(plan.spec.output_fd, 2) < 0)) {
    EndChild(plan, errno);
  }
  const int passed_fd = plan.spec.passed_fd;
  if (passed_fd >= 0) {
    if (passed_fd == ChildProcess::kPassedFd) {
      fcntl(passed_fd, F_SETFD, 0);
    } else if (dup2(passed_fd, ChildProcess::kPassedFd) < 0) {
      EndChild(plan, errno);
    }
  }
  // Closes descriptors left open by mistake, such as a launcher's sockets. Kernels before 5.11 lack
  // the call; there the close-on-exec flags must do.
  syscall(SYS_close_range, ChildProcess::kPassedFd + 1, ~0u, CLOSE_RANGE_CLOEXEC);
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigprocmask(SIG_SETMASK, &plan.signal_mask, nullptr);
  execve(plan.spec.program.c_str(), plan.argv, plan.envp);
  EndChild(plan, errno);
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// `changed`, plus, if inherited, this process's other variables.
std::vector<char*> EnvironmentWith(const std::vector<std::string>& changed, bool inherits) {
  std::vector<char*> all;
  for (char** own = environ; inherits && *own != nullptr; ++own) {
    const absl::string_view name(*own, std::strcspn(*own, "=") + 1);
    const bool kept = std::none_of(changed.begin(), changed.end(), [&](const std::string& other) {
      return absl::StartsWith(other, name);
    });
    if (kept) all.push_back(*own);
  }
  for (const std::string& entry : changed) all.push_back(const_cast<char*>(entry.c_str()));
  all.push_back(nullptr);
  return all;
}

UniqueFd PidfdOpen(pid_t pid) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Spawn(const SpawnSpec& spec) {
  std::vector<char*> argv = {const_cast<char*>(spec.program.c_str())};
  for (const std::string& arg : spec.args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const std::vector<char*> environment =
      EnvironmentWith(spec.environment, spec.inherits_environment);
  const std::string oom = absl::StrCat(spec.oom_score_adj);
  UniqueFd null_fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null_fd) return SystemError(errno, "opening /dev/null");

  ChildPlan plan{spec, argv.data(), environment.data(), null_fd.get(), oom, getpid()};

  // None of our signal handlers may run in the child while it shares our memory.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &plan.signal_mask);
  sigset_t original = plan.signal_mask;
  sigemptyset(&plan.signal_mask);
  const pid_t pid = vfork();
  if (pid == 0) RunChild(plan);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &original, nullptr);
  if (pid < 0) return SystemError(fork_error, absl::StrCat("starting ", spec.program));

  ChildProcess child;
  child.pid_ = pid;
  if (plan.child_error != 0) {
    waitpid(pid, nullptr, 0);
    return SystemError(plan.child_error, absl::StrCat("starting ", spec.program));
  }
  child.pidfd_ = PidfdOpen(pid);  // not reaped yet, so the pid is still the child's
  if (!child.pidfd_) {
    const int error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return SystemError(error, "pidfd_open");
  }
  return child;
}

void ChildProcess::Signal(int signal) const {
  if (pidfd_) syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0);
}

std::optional<ProcessExit> ChildProcess::TryReap() {
  int status = 0;
  rusage usage{};
  pid_t reaped;
  do {
    reaped = wait4(pid_, &status, WNOHANG, &usage);
  } while (reaped < 0 && errno == EINTR);
  if (reaped != pid_) return std::nullopt;
  ProcessExit exit;
  exit.outcome =
      WIFSIGNALED(status) ? ProcessExit::Outcome::kSignaled : ProcessExit::Outcome::kExited;
  exit.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  exit.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  return exit;
}

absl::StatusOr<UniqueFd> WatchProcess(pid_t pid, bool must_be_parent) {
  UniqueFd fd = PidfdOpen(pid);
  if (!fd) return SystemError(errno, absl::StrCat("watching process ", pid));
  if (must_be_parent && getppid() != pid) {
    return absl::NotFoundError(absl::StrCat("process ", pid, " is not the parent of this one"));
  }
  return fd;
}

}  // namespace bulkhead
