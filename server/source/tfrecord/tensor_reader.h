#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/source/records/byte_buffer.h"
#include "server/source/records/tensor_value.h"
#include "server/spec/signature.h"

namespace bulkhead {

// What a serialized tensor says of itself.
struct StoredTensor {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
};
// TensorFlow's number of an element type that is read; 0: of no other.
uint64_t TensorFlowNumber(v1::DType dtype);
// Whether `bytes` are what tf.io.serialize_tensor writes of numbers; a text or an image is not.
std::optional<StoredTensor> SniffTensor(absl::string_view bytes);

// Reads a TensorProto, the message that tf.io.serialize_tensor writes, from untrusted bytes:
// elements in tensor_content or in the typed fields (fewer values than elements: the last is
// repeated; none: zeros; as TensorFlow reads them). A tensor of shape [0] counts as an empty one
// where the first dimension is variable. Nothing is allocated before the shape has passed.
// Sample errors: MALFORMED_EXAMPLE, WRONG_DTYPE, WRONG_SHAPE, OVER_BOUND; the caller adds where.
absl::Status ReadTensor(absl::string_view message, const TensorTarget& target, ByteBuffer& scratch,
                        TensorValue& value);

}  // namespace bulkhead
