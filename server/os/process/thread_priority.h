#ifndef BULKHEAD_SERVER_OS_PROCESS_THREAD_PRIORITY_H_
#define BULKHEAD_SERVER_OS_PROCESS_THREAD_PRIORITY_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace bulkhead {

// The threads of a living process, from /proc: some 8 us for each.
struct ProcessThreads {
  std::vector<pid_t> ids;
  uint32_t runnable = 0;  // that run, or wait for a CPU, at this moment
};

// NOT_FOUND when there is no such process.
absl::StatusOr<ProcessThreads> ReadThreads(pid_t pid);

// Priorities count from that of the calling thread, 0, downwards: nice values, of which each gets
// 1.25 times less CPU time than the one before where threads compete for it, 19 being the last; and
// after them SCHED_IDLE, which gets a fifth of the time of nice 19.
inline constexpr int kIdlePriority = 20;

// Sets the priority of one thread, of a process of the same user. To take back what was set before
// needs CAP_SYS_NICE: PERMISSION_DENIED without.
absl::Status SetThreadPriority(pid_t thread, int priority);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_PROCESS_THREAD_PRIORITY_H_
