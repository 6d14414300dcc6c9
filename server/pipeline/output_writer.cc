#include "server/pipeline/output_writer.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

absl::Status Mismatch(const v1::TensorSchema& tensor, size_t size_bytes) {
  return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                   absl::StrCat("output `", tensor.name(), "` came out with another type or size (",
                                size_bytes, " bytes) than its schema says (", tensor.sample_bytes(),
                                "); please report this"));
}

absl::Status WritePixels(const MutableImageView& pixels, const v1::TensorSchema& tensor,
                         std::byte* destination) {
  const size_t size_bytes = pixels.row_bytes() * pixels.height;
  if (size_bytes != tensor.sample_bytes()) return Mismatch(tensor, size_bytes);
  if (reinterpret_cast<std::byte*>(pixels.data) == destination) return absl::OkStatus();
  for (int y = 0; y < pixels.height; ++y) {
    std::memcpy(destination + y * pixels.row_bytes(), pixels.row(y), pixels.row_bytes());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteOutput(const Value& value, const v1::TensorSchema& tensor,
                         std::byte* destination) {
  if (value.dtype != tensor.dtype()) return Mismatch(tensor, value.size_bytes);
  if (value.form == Value::Form::kPixels) return WritePixels(value.pixels, tensor, destination);
  if (value.size_bytes > tensor.sample_bytes()) {
    if (value.form != Value::Form::kEncoded) return Mismatch(tensor, value.size_bytes);
    return SampleError(
        reason::kOverBound,
        absl::StrCat("`", tensor.name(), "` has ", value.size_bytes, " bytes, more than the ",
                     tensor.sample_bytes(), " of its output; raise max_bytes"));
  }
  if (value.data != destination && value.size_bytes > 0) {
    std::memcpy(destination, value.data, value.size_bytes);
  }
  std::memset(destination + value.size_bytes, 0, tensor.sample_bytes() - value.size_bytes);
  return absl::OkStatus();
}

absl::Status WriteCount(const Value& value, const v1::TensorSchema& tensor,
                        std::byte* destination) {
  if (tensor.dtype() != v1::DTYPE_INT64 || tensor.sample_bytes() != sizeof(int64_t)) {
    return Mismatch(tensor, sizeof(int64_t));
  }
  std::memcpy(destination, &value.count, sizeof(int64_t));
  return absl::OkStatus();
}

}  // namespace bulkhead
