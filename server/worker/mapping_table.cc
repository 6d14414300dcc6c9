#include "server/worker/mapping_table.h"

#include <algorithm>

namespace bulkhead {

bool MappingTable::Lock() {
  // Long enough for any other thread to finish. The limit ends the wait of a signal handler whose
  // own thread holds the lock.
  constexpr int kTries = 1 << 20;
  for (int i = 0; i < kTries; ++i) {
    if (!locked_.test_and_set(std::memory_order_acquire)) return true;
  }
  return false;
}

bool MappingTable::Add(uintptr_t begin, uint64_t bytes, uint32_t stage) {
  if (!Lock()) return false;
  const bool fits = count_ < kCapacity;
  if (fits) ranges_[count_++] = {begin, begin + bytes, stage};
  Unlock();
  return fits;
}

MappingTable::Removed MappingTable::RemoveFrom(size_t index, uintptr_t begin, uintptr_t end) {
  Range& range = ranges_[index];
  const uintptr_t from = std::max(begin, range.begin);
  const uintptr_t to = std::min(end, range.end);
  if (from >= to) return {};
  Removed removed{range.stage, to - from, 0};
  const Range behind{to, range.end, range.stage};
  if (from > range.begin) {
    range.end = from;
    if (behind.begin < behind.end) {
      // Without room for the rest, its pages are dropped too.
      if (count_ < kCapacity) {
        ranges_[count_++] = behind;
        removed.ranges = -1;
      } else {
        removed.bytes += behind.end - behind.begin;
      }
    }
  } else if (behind.begin < behind.end) {
    range = behind;
  } else {
    range = ranges_[--count_];
    removed.ranges = 1;
  }
  return removed;
}

}  // namespace bulkhead
