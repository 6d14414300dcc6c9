#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/image/resize/linear_tap.h"

namespace bulkhead {

// The kernels of LinearResizer for AVX2: callers ask UseAvx2 first.

// Horizontal sums, four columns a step.
class LinearColumnsAvx2 {
 public:
  // Bytes that Sum reads from where the first of two pixels begins.
  static constexpr size_t kLoadBytes = 8;

  // Reuses its memory.
  void Plan(const std::vector<LinearTap>& taps);
  // Numbers that Sum writes, those beyond the last column included.
  size_t sums_size() const { return sums_size_; }
  // Sums of the neighbours of each column, weighted, in units of 1 / 128: r g b, r g b, ….
  void Sum(const uint8_t* row, int16_t* sums) const;

 private:
  size_t sums_size_ = 0;
  // For each column where its two pixels begin, in bytes, and their weights, four times, in the
  // order in which a step takes four columns: 0, 2, 1, 3.
  std::vector<int32_t> offsets_;
  std::vector<int16_t> weights_;
};

void MixRowsAvx2(const RowMix& rows, uint8_t* out);

}  // namespace bulkhead
