#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/source/records/byte_buffer.h"
#include "server/source/source.h"
#include "server/spec/signature.h"

namespace bulkhead {

// What the values of a record must be to make a declared feature, in whatever form a kind of files
// holds them.

// The elements of one row of a feature of this signature; of all of it where not variable.
uint64_t RowElements(const FeatureSignature& signature);

// How many rows `values` values are, `row_values` of them to a row; of a fixed shape 1. Sample
// errors: WRONG_SHAPE, OVER_BOUND.
absl::StatusOr<uint64_t> CountRows(uint64_t values, uint64_t row_values,
                                   const FeatureSignature& signature);
// OVER_BOUND if there are more rows than the feature's bound.
absl::Status CheckRowBound(uint64_t rows, const FeatureSignature& signature);
// OVER_BOUND if a string of `size` bytes is longer than `max_bytes`; 0: no bound.
absl::Status CheckStringBound(uint64_t size, uint64_t max_bytes);

// The bytes of a value, as a feature has them.
inline const std::byte* ValueBytes(absl::string_view view) {
  return reinterpret_cast<const std::byte*>(view.data());
}
// `size` bytes of the buffer, which become the value, of `count` rows.
inline char* ReserveValue(ByteBuffer& buffer, uint64_t size, uint64_t count, FeatureValue& value) {
  char* const bytes = buffer.Reserve(size);
  value = {reinterpret_cast<const std::byte*>(bytes), size, static_cast<int64_t>(count)};
  return bytes;
}

}  // namespace bulkhead
