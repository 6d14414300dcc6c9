#ifndef BULKHEAD_SERVER_OS_MEMORY_PROCESS_MEMORY_H_
#define BULKHEAD_SERVER_OS_MEMORY_PROCESS_MEMORY_H_

#include <sys/types.h>

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Memory of a living process by /proc/PID/status, in bytes: 0.02 ms, whatever its size.
struct ProcessMemory {
  uint64_t anonymous_bytes = 0;  // RssAnon
  uint64_t shared_bytes = 0;     // RssShmem: memfds, tmpfs, shared anonymous mappings
  uint64_t data_bytes = 0;       // VmData, which RLIMIT_DATA limits
  // VmPTE, VmSwap and HugetlbPages: page tables and pages that are in no resident set.
  uint64_t hidden_bytes = 0;
  uint64_t threads = 0;

  // What no other process shares.
  uint64_t private_bytes() const { return anonymous_bytes + hidden_bytes; }
};

// NOT_FOUND when there is no such process, or only what is left of one that ended.
absl::StatusOr<ProcessMemory> ReadProcessMemory(pid_t pid);

// The same of this very process, which may lose the right to open files of /proc: a sandbox that
// allowed /proc/self knows it by an inode that the kernel makes anew when it is short of memory.
class OwnMemory {
 public:
  // Opens /proc/self/status, for the process's life.
  static absl::StatusOr<OwnMemory> Open();

  absl::StatusOr<ProcessMemory> Read() const;

 private:
  explicit OwnMemory(UniqueFd status) : status_(std::move(status)) {}

  UniqueFd status_;
};

// Whether a signal (SIGSTOP, say) or a debugger has stopped the process.
bool IsStopped(pid_t pid);

// The soft RLIMIT_DATA of a process in bytes; UINT64_MAX: none. Needs the same user, or root.
absl::StatusOr<uint64_t> ReadDataLimit(pid_t pid);

// For a process that runs for weeks and shall be seen not to grow; before it starts threads. Left
// to itself glibc gives every thread an arena of its own, each of which creeps up page by page for
// minutes until it has met its busiest moment. This makes all threads share one.
void KeepMemorySteady();

// What this process has allocated and not freed. Locks the allocator, for some milliseconds where
// many blocks are free; so does TrimHeap.
uint64_t HeapUsedBytes();
// Gives the pages that are free back to the system, wherever in the heap they lie.
void TrimHeap();

// Once such a process has started: takes half a MiB of pages beforehand, which its busiest moment
// comes to need.
void TakePagesAhead();

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_MEMORY_PROCESS_MEMORY_H_
