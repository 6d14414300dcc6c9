#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace bulkhead {

// Which stage mapped which address ranges. A mapping's pages have no room for a tag, unlike
// malloc's blocks. Fixed size, allocates nothing, constant-initialized. Thread-safe by a spin lock
// that gives up after a while; the range's pages are then not counted.
class MappingTable {
 public:
  static constexpr size_t kCapacity = 16'384;

  // A removed range, or a part of one.
  struct Removed {
    uint32_t stage = 0;
    uint64_t bytes = 0;
    int ranges = 0;  // decrease of the number of ranges; −1: one was split in two
  };

  constexpr MappingTable() = default;

  // False if the table is full or could not be locked.
  bool Add(uintptr_t begin, uint64_t bytes, uint32_t stage);
  // Removes [begin, begin + bytes) and calls `removed` for every affected range, under the lock, so
  // it must not call the table.
  template <typename Function>
  void Remove(uintptr_t begin, uint64_t bytes, const Function& removed) {
    if (!Lock()) return;
    for (size_t i = 0; i < count_;) {
      const Removed part = RemoveFrom(i, begin, begin + bytes);
      if (part.bytes > 0) removed(part);
      // The last range has taken the place of a removed one.
      if (part.ranges < 1) ++i;
    }
    Unlock();
  }

 private:
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    uint32_t stage = 0;
  };

  bool Lock();
  void Unlock() { locked_.clear(std::memory_order_release); }
  Removed RemoveFrom(size_t index, uintptr_t begin, uintptr_t end);

  std::atomic_flag locked_ = ATOMIC_FLAG_INIT;
  size_t count_ = 0;
  std::array<Range, kCapacity> ranges_{};
};

}  // namespace bulkhead
