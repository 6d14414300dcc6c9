#include "server/os/memory/process_memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/os/files/fd.h"

namespace bulkhead {
namespace {

// The number in a "Key:   123" line.
uint64_t Number(const char* text, const char* key) {
  const char* at = std::strstr(text, key);
  return at == nullptr ? 0 : std::strtoull(at + std::strlen(key), nullptr, 10);
}

// The value in bytes of a "Key:   123 kB" line.
uint64_t Kilobytes(const char* text, const char* key) { return Number(text, key) * 1024; }

constexpr char kOwnStatus[] = "/proc/self/status";

// The present content of a process's status file; `path` is for messages.
absl::StatusOr<ProcessMemory> ReadStatusFile(int fd, const char* path) {
  // Usually 1.5 KiB, but the list of the user's groups may be long.
  char text[65536];
  const ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);
  if (bytes < 0) return SystemError(errno, path);
  text[bytes] = '\0';
  // A zombie has no memory, and no such lines.
  if (std::strstr(text, "\nRssAnon:") == nullptr) {
    return absl::NotFoundError(absl::StrCat(path, ": the process has ended"));
  }
  ProcessMemory memory;
  memory.anonymous_bytes = Kilobytes(text, "\nRssAnon:");
  memory.shared_bytes = Kilobytes(text, "\nRssShmem:");
  memory.data_bytes = Kilobytes(text, "\nVmData:");
  memory.hidden_bytes = Kilobytes(text, "\nVmPTE:") + Kilobytes(text, "\nVmSwap:") +
                        Kilobytes(text, "\nHugetlbPages:");
  memory.threads = Number(text, "\nThreads:");
  return memory;
}

}  // namespace

absl::StatusOr<ProcessMemory> ReadProcessMemory(pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/status", static_cast<int>(pid));
  const UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return SystemError(errno, path);
  return ReadStatusFile(fd.get(), path);
}

bool IsStopped(pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", static_cast<int>(pid));
  const UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t bytes = fd ? pread(fd.get(), text, sizeof(text) - 1, 0) : -1;
  if (bytes <= 0) return false;
  text[bytes] = '\0';
  // "pid (name) state …"; the name may hold anything.
  const char* const name_end = std::strrchr(text, ')');
  return name_end != nullptr && (name_end[2] == 'T' || name_end[2] == 't');
}

absl::StatusOr<OwnMemory> OwnMemory::Open() {
  UniqueFd fd(open(kOwnStatus, O_RDONLY | O_CLOEXEC));
  if (!fd) return SystemError(errno, kOwnStatus);
  return OwnMemory(std::move(fd));
}

absl::StatusOr<ProcessMemory> OwnMemory::Read() const {
  return ReadStatusFile(status_.get(), kOwnStatus);
}

absl::StatusOr<uint64_t> ReadDataLimit(pid_t pid) {
  rlimit limit;
  if (prlimit(pid, RLIMIT_DATA, nullptr, &limit) != 0) {
    return SystemError(errno, absl::StrCat("the data limit of process ", pid));
  }
  if (limit.rlim_cur == RLIM_INFINITY) return std::numeric_limits<uint64_t>::max();
  return static_cast<uint64_t>(limit.rlim_cur);
}

void KeepMemorySteady() {
  mallopt(M_ARENA_MAX, 1);
  // Without these calls glibc adapts both thresholds itself.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 4 << 20);
}

uint64_t HeapUsedBytes() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

void TrimHeap() { malloc_trim(0); }

void TakePagesAhead() {
  constexpr size_t kBytes = 512 << 10;
  constexpr size_t kPageBytes = 4096;
  auto* volatile block = static_cast<volatile char*>(std::malloc(kBytes));
  if (block == nullptr) return;
  for (size_t i = 0; i < kBytes; i += kPageBytes) block[i] = 1;
  std::free(const_cast<char*>(block));
}

}  // namespace bulkhead
