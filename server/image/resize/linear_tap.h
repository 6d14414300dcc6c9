#pragma once

#include <cstdint>

namespace bulkhead {

// The images of LinearResizer.
constexpr int kLinearChannels = 3;

// Where a pixel of the result samples: pixels `first` and `first` + 1 of the image, and their
// weights in units of 1 / 2048.
struct LinearTap {
  int first = 0;
  int16_t first_weight = 0;  // one behind the other, as kernels load them
  int16_t next_weight = 0;
};

// Two rows of horizontal sums to one row of the result.
struct RowMix {
  const int16_t* upper = nullptr;
  const int16_t* lower = nullptr;
  int16_t upper_weight = 0;
  int16_t lower_weight = 0;
  int count = 0;             // numbers in a row
  bool past_caches = false;  // where the memory of the result allows it

  // The number at `i`; also what the kernels do.
  uint8_t At(int i) const {
    const int sum = ((upper[i] * upper_weight) >> 16) + ((lower[i] * lower_weight) >> 16);
    return static_cast<uint8_t>((sum + 2) >> 2);
  }
};

}  // namespace bulkhead
