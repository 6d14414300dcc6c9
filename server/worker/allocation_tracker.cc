#include "server/worker/allocation_tracker.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "server/arena/exit_codes.h"
#include "server/worker/current_stage.h"
#include "server/worker/mapping_table.h"

// glibc's names of its own allocator, also when it is replaced.
extern "C" {
void* __libc_malloc(size_t size) noexcept;
void __libc_free(void* block) noexcept;
void* __libc_calloc(size_t count, size_t size) noexcept;
void* __libc_realloc(void* block, size_t size) noexcept;
void* __libc_memalign(size_t alignment, size_t size) noexcept;
}

namespace bulkhead {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr size_t kTagBytes = sizeof(uint64_t);
constexpr size_t kMaxBytes = PTRDIFF_MAX - 4096;
constexpr size_t kPageBytes = 4096;

enum Mode : uint32_t {
  kCount = 1,  // tag blocks and count them
  kEnd = 2,    // end the process when memory is refused
};

// malloc has no object to keep its state in.
struct TrackerState {
  std::atomic<uint32_t> mode{0};
  std::atomic<FlightCounters*> shared{nullptr};  // of threads without their own
  std::atomic<FlightHeader*> header{nullptr};
  std::atomic_flag ending = ATOMIC_FLAG_INIT;
  // Until a recorder is attached.
  FlightCounters early[FlightThread::kMaxStages];
  MappingTable mappings;
};
constinit TrackerState state;

// glibc keeps a block's size in the word before it, with flags in its last bits; the word behind a
// block that is not mapped by itself belongs to it, too.
size_t UsableBytes(const void* block) {
  constexpr size_t kFlags = 7;
  constexpr size_t kMapped = 2;
  const size_t head = static_cast<const size_t*>(block)[-1];
  return (head & ~kFlags) - ((head & kMapped) != 0 ? 2 : 1) * sizeof(size_t);
}

uint64_t* TagOf(void* block, size_t usable_bytes) {
  return reinterpret_cast<uint64_t*>(static_cast<char*>(block) + usable_bytes - kTagBytes);
}

uint64_t SealOf(const void* block) {
  return reinterpret_cast<uintptr_t>(block) * 0x9e3779b97f4a7c15u ^ 0x6275'6c6b'6865'6164u;
}

// Adds what was allocated, or, with numbers below 0, freed.
void Count(uint32_t stage, int64_t bytes, int64_t blocks) {
  FlightCounters* const own = current_stage.counters;
  if (own != nullptr) {
    std::atomic<int64_t>& live_bytes = own[stage].live_bytes;
    std::atomic<int64_t>& live_blocks = own[stage].live_blocks;
    std::atomic<uint64_t>& allocations = own[stage].allocations;
    live_bytes.store(live_bytes.load(kRelaxed) + bytes, kRelaxed);
    live_blocks.store(live_blocks.load(kRelaxed) + blocks, kRelaxed);
    if (bytes > 0) allocations.store(allocations.load(kRelaxed) + 1, kRelaxed);
    return;
  }
  FlightCounters& counters = state.shared.load(kRelaxed)[stage];
  counters.live_bytes.fetch_add(bytes, kRelaxed);
  counters.live_blocks.fetch_add(blocks, kRelaxed);
  if (bytes > 0) counters.allocations.fetch_add(1, kRelaxed);
}

void* Tagged(void* block) {
  const size_t usable_bytes = UsableBytes(block);
  const uint32_t stage = current_stage.stage;
  *TagOf(block, usable_bytes) = SealOf(block) ^ stage;
  Count(stage, static_cast<int64_t>(usable_bytes), 1);
  return block;
}

// The stage that a block is counted for; kMaxStages or more: it is not.
uint64_t StageOf(void* block, size_t usable_bytes) {
  return *TagOf(block, usable_bytes) ^ SealOf(block);
}

// Notes the caller and ends the process: the caller might continue with a wrong result.
[[noreturn]] void End(uint64_t bytes) {
  // The first one is the cause, and writes alone; the others wait for the end.
  while (state.ending.test_and_set()) pause();
  if (FlightHeader* const header = state.header.load(); header != nullptr) {
    header->refused_bytes.store(bytes, kRelaxed);
    header->refused_thread.store(current_stage.thread, kRelaxed);
    header->refused_stage.store(current_stage.stage, std::memory_order_release);
  }
  _exit(kExitOutOfMemory);
}

void* Refused(uint64_t bytes) {
  if ((state.mode.load(kRelaxed) & kEnd) != 0) End(bytes);
  errno = ENOMEM;
  return nullptr;
}

bool IsCounting() { return (state.mode.load(kRelaxed) & kCount) != 0; }

// A new block of `bytes`, which `allocate(bytes)` makes.
template <typename Allocate>
void* NewBlock(size_t bytes, const Allocate& allocate) {
  if (!IsCounting()) {
    void* const block = allocate(bytes);
    return block != nullptr ? block : Refused(bytes);
  }
  if (bytes > kMaxBytes) return Refused(bytes);
  void* const block = allocate(bytes + kTagBytes);
  return block != nullptr ? Tagged(block) : Refused(bytes);
}

void* AlignedBlock(size_t alignment, size_t bytes) {
  return NewBlock(bytes, [alignment](size_t size) { return __libc_memalign(alignment, size); });
}

void FreeBlock(void* block) {
  if (block == nullptr) return;
  if (IsCounting()) {
    const size_t usable_bytes = UsableBytes(block);
    const uint64_t stage = StageOf(block, usable_bytes);
    if (stage < FlightThread::kMaxStages) {
      *TagOf(block, usable_bytes) = 0;
      Count(static_cast<uint32_t>(stage), -static_cast<int64_t>(usable_bytes), -1);
    }
  }
  __libc_free(block);
}

void* ResizedBlock(void* block, size_t bytes) {
  if (!IsCounting()) {
    void* const resized = __libc_realloc(block, bytes);
    return resized != nullptr ? resized : Refused(bytes);
  }
  if (bytes > kMaxBytes) return Refused(bytes);
  const size_t old_bytes = UsableBytes(block);
  const uint64_t old_stage = StageOf(block, old_bytes);
  void* const resized = __libc_realloc(block, bytes + kTagBytes);
  if (resized == nullptr) return Refused(bytes);
  if (old_stage < FlightThread::kMaxStages) {
    Count(static_cast<uint32_t>(old_stage), -static_cast<int64_t>(old_bytes), -1);
  }
  return Tagged(resized);
}

// Whether RLIMIT_DATA counts such pages, and they are not counted here otherwise.
bool IsPrivateMemory(int protection, int flags) {
  return (flags & MAP_ANONYMOUS) != 0 && (flags & MAP_TYPE) == MAP_PRIVATE &&
         (protection & PROT_WRITE) != 0;
}

uint64_t WholePages(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

void AddMapping(void* begin, uint64_t bytes, uint32_t stage) {
  if (state.mappings.Add(reinterpret_cast<uintptr_t>(begin), bytes, stage)) {
    Count(stage, static_cast<int64_t>(bytes), 1);
  }
}

// Before the kernel gives the addresses to someone else. Returns the stage that had the last of
// them; kMaxStages: none had.
uint32_t RemoveMapping(void* begin, uint64_t bytes) {
  uint32_t stage = FlightThread::kMaxStages;
  state.mappings.Remove(reinterpret_cast<uintptr_t>(begin), bytes,
                        [&](const MappingTable::Removed& removed) {
                          stage = removed.stage;
                          Count(stage, -static_cast<int64_t>(removed.bytes), -removed.ranges);
                        });
  return stage;
}

void* Map(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  const bool is_private = state.mode.load(kRelaxed) != 0 && IsPrivateMemory(protection, flags);
  if ((flags & MAP_FIXED) != 0 && IsCounting()) RemoveMapping(at, WholePages(bytes));
  void* const mapped = reinterpret_cast<void*>(  // NOLINT
      syscall(SYS_mmap, at, bytes, protection, flags, fd, offset));
  if (!is_private) return mapped;
  if (mapped == MAP_FAILED) {
    if (errno == ENOMEM) Refused(bytes);
  } else if (IsCounting()) {
    AddMapping(mapped, WholePages(bytes), current_stage.stage);
  }
  return mapped;
}

int Unmap(void* begin, size_t bytes) {
  const bool makes_sense = bytes > 0 && reinterpret_cast<uintptr_t>(begin) % kPageBytes == 0;
  if (makes_sense && IsCounting()) RemoveMapping(begin, WholePages(bytes));
  return static_cast<int>(syscall(SYS_munmap, begin, bytes));
}

void* Remap(void* begin, size_t bytes, size_t new_bytes, int flags, void* to) {
  const uint32_t stage =
      IsCounting() ? RemoveMapping(begin, WholePages(bytes)) : FlightThread::kMaxStages;
  void* const mapped = reinterpret_cast<void*>(  // NOLINT
      syscall(SYS_mremap, begin, bytes, new_bytes, flags, to));
  if (stage < FlightThread::kMaxStages) {
    const bool moved = mapped != MAP_FAILED;
    AddMapping(moved ? mapped : begin, WholePages(moved ? new_bytes : bytes), stage);
  }
  if (mapped == MAP_FAILED && errno == ENOMEM) Refused(new_bytes);
  return mapped;
}

// Whether blocks of all kinds are as large as the C library says.
bool BlocksLookAsExpected() {
  using UsableSize = size_t (*)(void*);
  const auto usable_size = reinterpret_cast<UsableSize>(dlsym(RTLD_NEXT, "malloc_usable_size"));
  if (usable_size == nullptr) return false;
  bool good = true;
  for (const size_t bytes : {size_t{1}, size_t{24}, size_t{25}, size_t{5000}, size_t{3} << 20}) {
    for (const size_t alignment : {size_t{16}, size_t{64}, size_t{4096}}) {
      void* const block = __libc_memalign(alignment, bytes);
      if (block == nullptr) return false;
      good = good && UsableBytes(block) == usable_size(block) && UsableBytes(block) >= bytes;
      __libc_free(block);
    }
  }
  return good;
}

}  // namespace

AllocationTracker& AllocationTracker::Start() {
  static constinit AllocationTracker tracker;
  if (state.shared.load() == nullptr && BlocksLookAsExpected()) {
    state.shared = state.early;
    state.mode |= kCount;
    pthread_atfork(nullptr, nullptr, [] { state.mode = 0; });
  }
  return tracker;
}

void AllocationTracker::Attach(const FlightRecorder& recorder, bool attribution) {
  state.header = &recorder.header();
  FlightCounters* const before = state.shared.load();
  if (before == nullptr) return;
  if (!attribution) {
    state.mode &= ~kCount;
    return;
  }
  FlightCounters* const counters = recorder.shared().counters;
  state.shared = counters;
  state.mode |= kCount;
  if (before != state.early) return;
  for (size_t stage = 0; stage < FlightThread::kMaxStages; ++stage) {
    counters[stage].live_bytes += before[stage].live_bytes.exchange(0);
    counters[stage].live_blocks += before[stage].live_blocks.exchange(0);
    counters[stage].allocations += before[stage].allocations.exchange(0);
  }
}

void AllocationTracker::EndOnRefusal() { state.mode |= kEnd; }

}  // namespace bulkhead

#ifndef BULKHEAD_NO_MALLOC

using bulkhead::AlignedBlock;
using bulkhead::kPageBytes;

extern "C" {

void* malloc(size_t size) noexcept { return bulkhead::NewBlock(size, __libc_malloc); }

void free(void* block) noexcept { bulkhead::FreeBlock(block); }

void* calloc(size_t count, size_t size) noexcept {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return bulkhead::Refused(SIZE_MAX);
  return bulkhead::NewBlock(bytes, [](size_t total) { return __libc_calloc(1, total); });
}

void* realloc(void* block, size_t size) noexcept {
  if (block == nullptr) return malloc(size);
  if (size == 0) {  // as glibc does
    free(block);
    return nullptr;
  }
  return bulkhead::ResizedBlock(block, size);
}

void* memalign(size_t alignment, size_t size) noexcept { return AlignedBlock(alignment, size); }

void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return AlignedBlock(alignment, size);
}

int posix_memalign(void** block, size_t alignment, size_t size) noexcept {
  if (alignment % sizeof(void*) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) {
    return EINVAL;
  }
  const int errno_before = errno;
  void* const made = AlignedBlock(alignment, size);
  errno = errno_before;
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}

void* valloc(size_t size) noexcept { return AlignedBlock(kPageBytes, size); }

void* pvalloc(size_t size) noexcept {
  if (size > bulkhead::kMaxBytes) return bulkhead::Refused(size);
  return AlignedBlock(kPageBytes, bulkhead::WholePages(size));
}

size_t malloc_usable_size(void* block) noexcept {
  if (block == nullptr) return 0;
  const size_t bytes = bulkhead::UsableBytes(block);
  const bool tagged = bulkhead::StageOf(block, bytes) < bulkhead::FlightThread::kMaxStages;
  return tagged ? bytes - bulkhead::kTagBytes : bytes;
}

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  return bulkhead::Map(at, size, protection, flags, fd, offset);
}

void* mmap64(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  return bulkhead::Map(at, size, protection, flags, fd, offset);
}

int munmap(void* begin, size_t size) noexcept { return bulkhead::Unmap(begin, size); }

void* mremap(void* begin, size_t size, size_t new_size, int flags, ...) noexcept {
  va_list arguments;
  va_start(arguments, flags);
  void* const to = (flags & MREMAP_FIXED) != 0 ? va_arg(arguments, void*) : nullptr;
  va_end(arguments);
  return bulkhead::Remap(begin, size, new_size, flags, to);
}

}  // extern "C"

#endif  // BULKHEAD_NO_MALLOC
