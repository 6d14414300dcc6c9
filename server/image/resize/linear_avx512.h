#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/image/resize/linear_tap.h"

namespace bulkhead {

// The kernels of LinearResizer for AVX-512 with VBMI: callers ask UseAvx512 first.

// Horizontal sums, 16 numbers a step, whichever columns they are of.
class LinearColumnsAvx512 {
 public:
  // Reuses its memory. False when the pixels of a step lie further apart than 64 bytes, as they do
  // from a scale of 3.8 : 1 on.
  bool Plan(const std::vector<LinearTap>& taps);
  // Numbers that Sum writes, those beyond the last column included.
  size_t sums_size() const { return steps_.size() * kStep; }
  // As LinearColumnsAvx2::Sum. So many bytes behind the row may be read; with fewer than 64 none
  // are, and it takes longer.
  void Sum(const uint8_t* row, size_t bytes_behind, int16_t* sums) const;

 private:
  static constexpr size_t kStep = 16;

  struct Step {
    // Of each number the bytes of its two pixels behind `offset`, each in 16 bits of which the
    // upper ones count for nothing, and their weights.
    alignas(64) uint32_t places[kStep];
    uint32_t weights[kStep];
    uint64_t bytes;  // that are loaded, one bit each
    int32_t offset;
  };

  template <bool kMasked>
  void SumSteps(const uint8_t* row, int16_t* sums) const;

  std::vector<Step> steps_;
};

void MixRowsAvx512(const RowMix& rows, uint8_t* out);

}  // namespace bulkhead
