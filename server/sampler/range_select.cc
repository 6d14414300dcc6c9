#include "server/sampler/range_select.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace bulkhead {

RangeSelect::RangeSelect(std::vector<uint32_t> values) : size_(values.size()) {
  const int bits = size_ < 2 ? 0 : static_cast<int>(std::bit_width(size_ - 1));
  for (int bit = bits - 1; bit >= 0; --bit) {
    Level level{bit, {0}};
    level.zeros_before.reserve(size_ + 1);
    for (const uint32_t value : values) {
      level.zeros_before.push_back(level.zeros_before.back() + ((value >> bit & 1) == 0 ? 1 : 0));
    }
    std::stable_partition(values.begin(), values.end(),
                          [bit](uint32_t value) { return (value >> bit & 1) == 0; });
    levels_.push_back(std::move(level));
  }
}

uint32_t RangeSelect::Select(uint64_t first, uint64_t k) const {
  uint64_t begin = first;
  uint64_t end = size_;
  uint32_t value = 0;
  for (const Level& level : levels_) {
    const uint64_t zeros = level.ZerosIn(begin, end);
    const bool one = k >= zeros;
    if (one) {
      k -= zeros;
      value |= uint32_t{1} << level.bit;
    }
    begin = Down(level, begin, one);
    end = Down(level, end, one);
  }
  return value;
}

uint64_t RangeSelect::CountBelow(uint64_t first, uint32_t value) const {
  uint64_t begin = first;
  uint64_t end = size_;
  uint64_t count = 0;
  for (const Level& level : levels_) {
    const bool one = (value >> level.bit & 1) != 0;
    if (one) count += level.ZerosIn(begin, end);
    begin = Down(level, begin, one);
    end = Down(level, end, one);
  }
  return count;
}

}  // namespace bulkhead
