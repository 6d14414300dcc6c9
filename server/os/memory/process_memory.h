#pragma once

#include <sys/types.h>

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Memory of a living process in bytes, from /proc/PID/status. Takes 0.02 ms at any size.
struct ProcessMemory {
  uint64_t anonymous_bytes = 0;  // RssAnon
  uint64_t shared_bytes = 0;     // RssShmem: memfds, tmpfs, shared anonymous mappings
  uint64_t data_bytes = 0;       // VmData, which RLIMIT_DATA limits
  // VmPTE, VmSwap and HugetlbPages: page tables, and pages outside the resident set.
  uint64_t hidden_bytes = 0;
  uint64_t threads = 0;

  // Memory not shared with other processes.
  uint64_t private_bytes() const { return anonymous_bytes + hidden_bytes; }
};

// NOT_FOUND if there is no such process, or only a zombie.
absl::StatusOr<ProcessMemory> ReadProcessMemory(pid_t pid);

// The same for this process, which may lose access to /proc: a sandbox that allows /proc/self
// identifies it by an inode, which the kernel replaces when memory is short.
class OwnMemory {
 public:
  // Opens /proc/self/status for the life of the process.
  static absl::StatusOr<OwnMemory> Open();

  absl::StatusOr<ProcessMemory> Read() const;

 private:
  explicit OwnMemory(UniqueFd status) : status_(std::move(status)) {}

  UniqueFd status_;
};

// Whether the process is stopped by a signal such as SIGSTOP, or by a debugger.
bool IsStopped(pid_t pid);

// The soft RLIMIT_DATA of a process in bytes; UINT64_MAX: none. Needs the same user, or root.
absl::StatusOr<uint64_t> ReadDataLimit(pid_t pid);

// For a process that runs for weeks without growing. Makes all threads share one malloc arena; with
// glibc's default of one per thread each arena grows for minutes, until it has met its busiest
// moment. Call it before threads are started.
void KeepMemorySteady();

// Bytes that this process has allocated and not freed. Like TrimHeap it locks the allocator, for
// some milliseconds if many blocks are free.
uint64_t HeapUsedBytes();
// Returns free pages to the system, wherever they lie in the heap.
void TrimHeap();

// Touches half a MiB of pages that the process needs in its busiest moment. Call it after the
// start.
void TakePagesAhead();

}  // namespace bulkhead
