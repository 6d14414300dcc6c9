#ifndef BULKHEAD_SERVER_STAGES_RUNNING_SAMPLE_KEY_H_
#define BULKHEAD_SERVER_STAGES_RUNNING_SAMPLE_KEY_H_

#include <cstdint>

namespace bulkhead {

// Identifies a sample's randomness.
struct SampleKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t position = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_RUNNING_SAMPLE_KEY_H_
