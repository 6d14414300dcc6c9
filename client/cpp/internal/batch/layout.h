#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bulkhead/batch.h"
#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/types.pb.h"

namespace bulkhead::client_internal {

// A BatchSchema that was checked: every tensor lies inside the batch, nothing overflows, and what
// says how a packed one lies is there.
struct BatchLayout {
  static constexpr uint64_t kNoMemory = UINT64_MAX;

  // What batches give. A tensor of packed rows is followed by its offsets, which the service does
  // not send.
  std::vector<TensorInfo> tensors;
  // Of each tensor in the batch's memory; kNoMemory for offsets.
  std::vector<uint64_t> offsets;
  // Of a packed tensor: which of `tensors` tells the counts of its rows, or its size. Else its own
  // number.
  std::vector<size_t> told_by;
  // Of packed extents: whether the channels come first.
  std::vector<bool> channels_first;
  uint64_t batch_size = 0;
  uint64_t batch_bytes = 0;
};
absl::StatusOr<BatchLayout> MakeLayout(const v1::BatchSchema& schema);

// The tensors of a batch of `samples` that lies whole in `memory`. `row_offsets` gets the memory of
// offsets and must live as long. INTERNAL (PROTOCOL_VIOLATION) when the batch says that packed
// samples lie outside their tensor.
absl::StatusOr<std::vector<Tensor>> ViewTensors(const BatchLayout& layout, const uint8_t* memory,
                                                uint64_t samples,
                                                std::vector<std::vector<int64_t>>* row_offsets);

// Adds the user's files that were loaded since, each once by its name; sorted by that.
void AddCode(const google::protobuf::RepeatedPtrField<v1::CodeFile>& files, v1::Cursor* cursor);

// The cursor as JSON with plain numbers, its keys as in the proto.
std::string CursorToJson(const v1::Cursor& cursor);
// INVALID_ARGUMENT if `json` is not a cursor.
absl::StatusOr<v1::Cursor> CursorFromJson(const std::string& json);

}  // namespace bulkhead::client_internal
