#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/source/records/byte_buffer.h"
#include "server/spec/signature.h"

namespace bulkhead {

// What a tensor feature must look like once read.
struct TensorTarget {
  const FeatureSignature* signature = nullptr;
  bool cast = false;
};

// A tensor's elements: `count` rows (1 unless variable), a view of the record or of the scratch.
struct TensorValue {
  absl::string_view bytes;
  int64_t count = 1;
};

using TensorDims = absl::InlinedVector<int64_t, 8>;

// "[2, 3]".
std::string ShapeText(absl::Span<const int64_t> dims);

// WRONG_DTYPE if a tensor of `stored` elements is none for the target.
absl::Status CheckTensorType(v1::DType stored, const TensorTarget& target);
// Compares a tensor's shape with the declared one; sets the number of rows and of elements. A
// tensor of shape [0] counts as an empty one where the first dimension is variable. Sample errors:
// WRONG_SHAPE, OVER_BOUND.
absl::Status CheckTensorShape(absl::Span<const int64_t> dims, const FeatureSignature& signature,
                              int64_t& rows, uint64_t& elements);
// WRONG_SHAPE of a tensor that has `found` ("shape [2, 3]").
absl::Status WrongTensorShape(absl::string_view found, const FeatureSignature& signature);

// The `elements` elements of `content`, of type `stored`, as the target's type: `content` itself,
// or converted in the scratch.
absl::string_view AsTargetType(absl::string_view content, v1::DType stored, v1::DType wanted,
                               uint64_t elements, ByteBuffer& scratch);

}  // namespace bulkhead
