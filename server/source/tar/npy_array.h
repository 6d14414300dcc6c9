#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/source/records/byte_buffer.h"
#include "server/source/records/tensor_value.h"

namespace bulkhead {

// An array as numpy.save writes it (NumPy, numpy.lib.format, versions 1 to 3): views of the bytes.
struct NpyArray {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  TensorDims dims;
  absl::string_view content;  // row by row, little-endian
};

// Whether `bytes` begin as numpy.save writes them.
bool IsNpy(absl::string_view bytes);

// Reads the header. Sample errors: MALFORMED_EXAMPLE for a damaged header, or elements stored
// column by column; WRONG_DTYPE for elements that are no numbers, or big-endian.
absl::StatusOr<NpyArray> ParseNpy(absl::string_view bytes);

// Reads an array as a tensor feature. Sample errors: those of ParseNpy, CheckTensorType and
// CheckTensorShape; MALFORMED_EXAMPLE for elements that are cut short.
absl::Status ReadNpy(absl::string_view bytes, const TensorTarget& target, ByteBuffer& scratch,
                     TensorValue& value);

}  // namespace bulkhead
