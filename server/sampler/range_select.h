#pragma once

#include <cstdint>
#include <vector>

namespace bulkhead {

// A sequence of distinct numbers below its own length n, and the k-th smallest of any of its tails
// in O(log n): a wavelet matrix (Claude, Navarro, Ordóñez, "The wavelet matrix", 2015) with plain
// counters. Takes 4·n·log2(n) bytes. Immutable; thread-safe.
class RangeSelect {
 public:
  // `values`: a permutation of 0 … n − 1; n < 2^32.
  explicit RangeSelect(std::vector<uint32_t> values);

  // Among the values from index `first` on: the k-th smallest (from 0), and how many are below
  // `value`.
  uint32_t Select(uint64_t first, uint64_t k) const;
  uint64_t CountBelow(uint64_t first, uint32_t value) const;

 private:
  // Sorts by one bit, zeros first; the order among zeros and among ones stays.
  struct Level {
    int bit;
    std::vector<uint32_t> zeros_before;  // [i]: zeros among the first i values of this level
    uint64_t ZerosIn(uint64_t begin, uint64_t end) const {
      return zeros_before[end] - zeros_before[begin];
    }
    uint64_t zeros() const { return zeros_before.back(); }
  };
  // Where index i goes on the next level, among the zeros or the ones.
  static uint64_t Down(const Level& level, uint64_t i, bool one) {
    return one ? level.zeros() + i - level.zeros_before[i] : level.zeros_before[i];
  }

  uint64_t size_;
  std::vector<Level> levels_;  // the highest bit first
};

}  // namespace bulkhead
