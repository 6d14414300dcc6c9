#pragma once

#include <sys/types.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// Memory and CPU time of a living process, from /proc.
struct ProcessUsage {
  // RssAnon plus clean private file pages, in bytes. Excludes shared memory such as arenas, which
  // counts once, for its owner.
  uint64_t memory_bytes = 0;
  // VmData: private writable virtual memory, which RLIMIT_DATA limits.
  uint64_t data_bytes = 0;
  uint64_t anonymous_bytes = 0;  // RssAnon
  // Private_Clean of smaps_rollup: resident file pages that are clean and that no other process
  // maps; and RssFile, all resident file pages, when they were counted.
  uint64_t private_file_bytes = 0;
  uint64_t file_bytes = 0;
  double cpu_seconds = 0;  // user and system
};

// NOT_FOUND if there is no such process. Takes about 15 ms per GiB of resident memory, which
// smaps_rollup walks.
absl::StatusOr<ProcessUsage> ReadProcessUsage(pid_t pid);

// The same in 0.05 ms, as long as the resident file pages are within 1 MiB and a sixteenth of
// those of `before`, an earlier reading of this process: its private ones are taken over.
absl::StatusOr<ProcessUsage> ReadProcessUsageSince(pid_t pid, const ProcessUsage& before);

// The same without private file pages (0.05 ms): memory_bytes is RssAnon alone.
absl::StatusOr<ProcessUsage> ReadProcessUsageFast(pid_t pid);

// Lowers a limit of this process (setrlimit), soft and hard, to `most`; keeps a lower one.
// `reading` and `setting` begin the errors' texts.
absl::Status LowerLimit(int resource, uint64_t most, absl::string_view reading,
                        absl::string_view setting);

// The same for RLIMIT_DATA.
absl::Status LimitDataMemory(uint64_t bytes);

// CPUs that this process may use: its affinity mask, limited by the cgroup's CPU quota (v1 or v2);
// at least 1.
int AvailableCpus();

// The same, not rounded up: seconds of CPU time that this process gets in a second at most.
double AvailableCpuTime();

// Memory that this process may use, in bytes: the machine's, or the cgroup's limit if that is
// lower.
uint64_t MemoryLimitBytes();

// The unused part of it; reclaimable page cache counts as unused.
uint64_t AvailableMemoryBytes();

}  // namespace bulkhead
