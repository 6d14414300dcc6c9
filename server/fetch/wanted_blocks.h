#pragma once

#include <cstdint>
#include <map>

namespace bulkhead {

// How many requests want each block of an object. Takes memory for each range that is wanted, and
// not for each block of it.
class WantedBlocks {
 public:
  bool empty() const { return ranges_.empty(); }
  bool Has(uint64_t block) const;

  // One request more wants the blocks [begin, end).
  void Add(uint64_t begin, uint64_t end);
  // One less, of those that were added.
  void Remove(uint64_t begin, uint64_t end);

 private:
  struct Range {
    uint64_t end = 0;
    uint32_t requests = 0;
  };
  using Ranges = std::map<uint64_t, Range>;  // disjoint, by begin

  // The first range from `block` on; one that has `block` in its middle is cut there.
  Ranges::iterator CutAt(uint64_t block);

  Ranges ranges_;
};

}  // namespace bulkhead
