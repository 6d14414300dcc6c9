#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace bulkhead {

// The threads of a living process, from /proc; about 8 us per thread.
struct ProcessThreads {
  std::vector<pid_t> ids;
  uint32_t runnable = 0;  // running, or waiting for a CPU
};

// NOT_FOUND if there is no such process.
absl::StatusOr<ProcessThreads> ReadThreads(pid_t pid);

// Seconds that the living threads of a process have been ready to run but had no CPU, all together;
// 0 if there is no such process, or where the kernel does not say. About 8 us per thread. Source:
// the second number of /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats).
double ReadCpuWaitSeconds(pid_t pid);

// Priorities, relative to the calling thread's, which is 0: nice values up to 19, each of which
// gets 1.25 times less CPU time than the one before when threads compete; then SCHED_IDLE, which
// gets a fifth of the time of nice 19.
inline constexpr int kIdlePriority = 20;

// Sets the priority of one thread of a process of the same user. Raising it again needs
// CAP_SYS_NICE: PERMISSION_DENIED without.
absl::Status SetThreadPriority(pid_t thread, int priority);

}  // namespace bulkhead
