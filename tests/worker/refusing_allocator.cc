#include "tests/worker/refusing_allocator.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace bulkhead {
namespace {

constinit std::atomic<uint64_t> left_until_refusal{0};

bool IsToBeRefused() {
  uint64_t left = left_until_refusal.load();
  while (left > 0 && !left_until_refusal.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 1) errno = ENOMEM;
  return left == 1;
}

}  // namespace

void RefuseAllocation(uint64_t nth) { left_until_refusal = nth; }
uint64_t LeftUntilRefusal() { return left_until_refusal; }

}  // namespace bulkhead

extern "C" {

void* __real___libc_malloc(size_t size) noexcept;
void* __real___libc_calloc(size_t count, size_t size) noexcept;
void* __real___libc_realloc(void* block, size_t size) noexcept;
void* __real___libc_memalign(size_t alignment, size_t size) noexcept;
long __real_syscall(long number, ...) noexcept;  // NOLINT(google-runtime-int): as unistd.h

void* __wrap___libc_malloc(size_t size) noexcept {
  return bulkhead::IsToBeRefused() ? nullptr : __real___libc_malloc(size);
}

void* __wrap___libc_calloc(size_t count, size_t size) noexcept {
  return bulkhead::IsToBeRefused() ? nullptr : __real___libc_calloc(count, size);
}

void* __wrap___libc_realloc(void* block, size_t size) noexcept {
  return bulkhead::IsToBeRefused() ? nullptr : __real___libc_realloc(block, size);
}

void* __wrap___libc_memalign(size_t alignment, size_t size) noexcept {
  return bulkhead::IsToBeRefused() ? nullptr : __real___libc_memalign(alignment, size);
}

// With as many arguments as a system call may have; what the caller left out is ignored.
long __wrap_syscall(long number, long first, long second, long third, long fourth, long fifth,
                    long sixth) noexcept {                // NOLINT(google-runtime-int)
  constexpr long kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;  // NOLINT(google-runtime-int)
  const bool maps_memory = number == SYS_mmap && (third & PROT_WRITE) != 0 &&
                           (fourth & (MAP_TYPE | MAP_ANONYMOUS)) == kPrivate;
  if (maps_memory && bulkhead::IsToBeRefused()) return -1;
  return __real_syscall(number, first, second, third, fourth, fifth, sixth);
}

}  // extern "C"
