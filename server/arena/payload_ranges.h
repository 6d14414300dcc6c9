#pragma once

#include <cstdint>
#include <vector>

#include "bulkhead/v1/types.pb.h"

namespace bulkhead {

// A part of a slot.
struct PayloadRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Where a batch of so many samples lies in its slot, in order: a full one is all of it, one of
// fewer each tensor's filled part. Empty for more samples than a batch has.
inline std::vector<PayloadRange> PayloadRanges(const v1::BatchSchema& schema, uint64_t samples) {
  std::vector<PayloadRange> ranges;
  if (samples == schema.batch_size()) {
    if (schema.batch_bytes() > 0) ranges.push_back({0, schema.batch_bytes()});
  } else if (samples < schema.batch_size()) {
    for (const v1::TensorSchema& tensor : schema.tensors()) {
      const uint64_t bytes = samples * tensor.sample_bytes();
      if (bytes > 0) ranges.push_back({tensor.batch_offset(), bytes});
    }
  }
  return ranges;
}

}  // namespace bulkhead
