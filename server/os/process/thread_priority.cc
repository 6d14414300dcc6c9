#include "server/os/process/thread_priority.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

constexpr size_t kMaxStatBytes = 4096;

std::string TaskFolder(pid_t pid) { return absl::StrCat("/proc/", pid, "/task"); }

// Field 3 of a stat file is 'R', found after the end of field 2, a name that may hold anything.
bool IsRunnable(const std::string& stat_path) {
  const auto stat = ReadPrefix(stat_path, kMaxStatBytes);
  if (!stat.ok()) return false;
  const size_t name_end = stat->rfind(')');
  return name_end != std::string::npos && stat->compare(name_end, 3, ") R") == 0;
}

}  // namespace

double ReadCpuWaitSeconds(pid_t pid) {
  const std::string folder = TaskFolder(pid);
  double seconds = 0;
  for (const std::string& name : NamesIn(folder)) {
    const auto stat = ReadPrefix(absl::StrCat(folder, "/", name, "/schedstat"), kMaxStatBytes);
    if (!stat.ok()) continue;  // the thread has just ended
    const std::vector<std::string> numbers = absl::StrSplit(*stat, ' ');
    uint64_t nanoseconds = 0;
    if (numbers.size() < 2 || !absl::SimpleAtoi(numbers[1], &nanoseconds)) continue;
    seconds += static_cast<double>(nanoseconds) * 1e-9;
  }
  return seconds;
}

absl::StatusOr<ProcessThreads> ReadThreads(pid_t pid) {
  const std::string folder = TaskFolder(pid);
  ProcessThreads threads;
  for (const std::string& name : NamesIn(folder)) {
    pid_t id = 0;
    if (!absl::SimpleAtoi(name, &id)) continue;
    threads.ids.push_back(id);
    if (IsRunnable(absl::StrCat(folder, "/", name, "/stat"))) ++threads.runnable;
  }
  if (threads.ids.empty()) return absl::NotFoundError(absl::StrCat("no process ", pid));
  return threads;
}

absl::Status SetThreadPriority(pid_t thread, int priority) {
  const int policy = priority >= kIdlePriority ? SCHED_IDLE : sched_getscheduler(0);
  const sched_param no_parameter{};
  if (sched_getscheduler(thread) != policy &&
      sched_setscheduler(thread, policy, &no_parameter) != 0) {
    return SystemError(errno, absl::StrCat("the scheduling policy of thread ", thread));
  }
  constexpr int kLastNice = 19;
  const int nice = std::min(getpriority(PRIO_PROCESS, 0) + priority, kLastNice);
  if (setpriority(PRIO_PROCESS, static_cast<id_t>(thread), nice) != 0) {
    return SystemError(errno, absl::StrCat("the nice value of thread ", thread));
  }
  return absl::OkStatus();
}

}  // namespace bulkhead
