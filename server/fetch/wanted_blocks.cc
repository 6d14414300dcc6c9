#include "server/fetch/wanted_blocks.h"

#include <algorithm>
#include <iterator>

namespace bulkhead {

bool WantedBlocks::Has(uint64_t block) const {
  const auto behind = ranges_.upper_bound(block);
  return behind != ranges_.begin() && std::prev(behind)->second.end > block;
}

WantedBlocks::Ranges::iterator WantedBlocks::CutAt(uint64_t block) {
  const auto from = ranges_.lower_bound(block);
  if (from == ranges_.begin() || std::prev(from)->second.end <= block) return from;
  Range& before = std::prev(from)->second;
  const Range rest = before;
  before.end = block;
  return ranges_.emplace_hint(from, block, rest);
}

void WantedBlocks::Add(uint64_t begin, uint64_t end) {
  CutAt(end);
  auto range = CutAt(begin);
  while (begin < end) {
    if (range == ranges_.end() || range->first > begin) {
      const uint64_t gap_end = range == ranges_.end() ? end : std::min(end, range->first);
      ranges_.emplace_hint(range, begin, Range{gap_end, 1});
      begin = gap_end;
    } else {
      ++range->second.requests;
      begin = range->second.end;
      ++range;
    }
  }
}

void WantedBlocks::Remove(uint64_t begin, uint64_t end) {
  CutAt(end);
  for (auto range = CutAt(begin); range != ranges_.end() && range->first < end;) {
    range = --range->second.requests == 0 ? ranges_.erase(range) : std::next(range);
  }
}

}  // namespace bulkhead
