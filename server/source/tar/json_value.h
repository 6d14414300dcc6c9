#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/source/records/byte_buffer.h"
#include "server/source/records/tensor_value.h"

namespace bulkhead {

// Values of JSON texts (RFC 8259), and of the NaN and Infinity that Python's json writes. Texts are
// untrusted; nothing is built of them but what is asked for.

// The text of the value that `steps` lead to: names of fields of objects, numbers of elements of
// arrays; no step: the whole. Absent if there is none, or it is null. Of a name that an object has
// twice the last counts, as in Python. MALFORMED_EXAMPLE (a sample error) if `text` is not JSON.
absl::StatusOr<std::optional<absl::string_view>> FindJson(absl::string_view text,
                                                          const std::vector<std::string>& steps);

// A string value's bytes in UTF-8, a view of `value` or of `buffer`. WRONG_DTYPE if it is no
// string.
absl::StatusOr<absl::string_view> JsonString(absl::string_view value, ByteBuffer& buffer);

// Memory for JsonNumbers; reused from record to record.
struct JsonScratch {
  ByteBuffer parsed;
  ByteBuffer converted;
};

// A number, or arrays of numbers in each other, as elements of the signature's shape and type; true
// and false count as 1 and 0. Sample errors: WRONG_DTYPE for what is no number, or none that the
// type holds; WRONG_SHAPE; OVER_BOUND.
absl::Status JsonNumbers(absl::string_view value, const FeatureSignature& signature,
                         JsonScratch& scratch, TensorValue& numbers);

}  // namespace bulkhead
