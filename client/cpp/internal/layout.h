#ifndef BULKHEAD_CLIENT_CPP_INTERNAL_LAYOUT_H_
#define BULKHEAD_CLIENT_CPP_INTERNAL_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bulkhead/batch.h"
#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/types.pb.h"

namespace bulkhead::client_internal {

// A BatchSchema that was checked: every tensor lies inside the batch, nothing overflows.
struct BatchLayout {
  std::vector<TensorInfo> tensors;
  std::vector<uint64_t> offsets;  // of each tensor in the batch's memory
  uint64_t batch_size = 0;
  uint64_t batch_bytes = 0;
};
absl::StatusOr<BatchLayout> MakeLayout(const v1::BatchSchema& schema);

// Adds a record to those that the cursor calls quarantined, sorted by their bytes, unless it is
// among them. INTERNAL (PROTOCOL_VIOLATION) for a record without a name and for more than 256.
absl::Status AddQuarantined(const std::string& record, v1::Cursor* cursor);

// The cursor as JSON with plain numbers, its keys as in the proto.
std::string CursorToJson(const v1::Cursor& cursor);
// INVALID_ARGUMENT when `json` is none.
absl::StatusOr<v1::Cursor> CursorFromJson(const std::string& json);

}  // namespace bulkhead::client_internal

#endif  // BULKHEAD_CLIENT_CPP_INTERNAL_LAYOUT_H_
