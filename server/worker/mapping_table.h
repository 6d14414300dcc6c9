#ifndef BULKHEAD_SERVER_WORKER_MAPPING_TABLE_H_
#define BULKHEAD_SERVER_WORKER_MAPPING_TABLE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace bulkhead {

// Which address ranges were mapped by which stage: what malloc keeps in its blocks has no place in
// pages that belong to others. Fixed in size, allocates nothing, constant-initialized. Thread-safe
// by a spin lock that gives up: then a range is not known, and its pages are not counted.
class MappingTable {
 public:
  static constexpr size_t kCapacity = 16'384;

  // A range, or a part of one, that is gone.
  struct Removed {
    uint32_t stage = 0;
    uint64_t bytes = 0;
    int ranges = 0;  // how many fewer there are; −1: one was cut in two
  };

  constexpr MappingTable() = default;

  // False when the table is full or could not be locked.
  bool Add(uintptr_t begin, uint64_t bytes, uint32_t stage);
  // Forgets [begin, begin + bytes), calling `removed` for every range that lies in it, whole or in
  // part; under the lock, so that it must not come back here.
  template <typename Function>
  void Remove(uintptr_t begin, uint64_t bytes, const Function& removed) {
    if (!Lock()) return;
    for (size_t i = 0; i < count_;) {
      const Removed part = RemoveFrom(i, begin, begin + bytes);
      if (part.bytes > 0) removed(part);
      // A range that is gone left its place to the last one.
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

#endif  // BULKHEAD_SERVER_WORKER_MAPPING_TABLE_H_
