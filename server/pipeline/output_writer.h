#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "bulkhead/v1/types.pb.h"
#include "server/stages/running/value.h"

namespace bulkhead {

// Writes the final `value` to its place in the batch: all of the tensor's sample_bytes, padding
// zeroed. A value that a stage has already written there is only padded. Errors: OVER_BOUND (a
// sample error) for a byte string longer than the tensor's field; INTERNAL if type or size are not
// those of the schema.
absl::Status WriteOutput(const Value& value, const v1::TensorSchema& tensor,
                         std::byte* destination);

// Writes a `<name>_count` output: the extent of `value`'s first dimension, int64.
absl::Status WriteCount(const Value& value, const v1::TensorSchema& tensor, std::byte* destination);

}  // namespace bulkhead
