#ifndef BULKHEAD_SERVER_OS_PROCESS_PROCESS_USAGE_H_
#define BULKHEAD_SERVER_OS_PROCESS_PROCESS_USAGE_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace bulkhead {

// Memory and CPU time of a living process, from /proc.
struct ProcessUsage {
  // RssAnon plus clean private file pages (Private_Clean of smaps_rollup), in bytes. Shared memory
  // such as arenas is not in it: it is counted once, where it is owned.
  uint64_t memory_bytes = 0;
  // VmData: private writable virtual memory, which RLIMIT_DATA limits.
  uint64_t data_bytes = 0;
  uint64_t anonymous_bytes = 0;  // RssAnon
  double cpu_seconds = 0;        // user and system
};

// NOT_FOUND when there is no such process. Costs about 15 ms per GiB of resident memory
// (smaps_rollup walks it).
absl::StatusOr<ProcessUsage> ReadProcessUsage(pid_t pid);

// The same without smaps_rollup (0.05 ms): memory_bytes is RssAnon alone.
absl::StatusOr<ProcessUsage> ReadProcessUsageFast(pid_t pid);

// Lowers this process's RLIMIT_DATA (soft and hard) to `bytes`; one that is lower already stays.
absl::Status LimitDataMemory(uint64_t bytes);

// CPUs that this process may really use: its affinity mask, cut down to the cgroup's CPU quota (v1
// or v2), at least 1.
int AvailableCpus();

// Memory that this process may really use, in bytes: the machine's, or the cgroup's limit where
// that is lower.
uint64_t MemoryLimitBytes();

// How much of that is not in use, page cache that can be dropped counted as free.
uint64_t AvailableMemoryBytes();

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_PROCESS_PROCESS_USAGE_H_
