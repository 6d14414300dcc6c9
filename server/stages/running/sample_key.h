#pragma once

#include <cstdint>

namespace bulkhead {

// Identifies a sample's randomness.
struct SampleKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t position = 0;
};

}  // namespace bulkhead
