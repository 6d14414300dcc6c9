#include "tools/common/tensor_stats.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/cast.h"
#include "tools/common/tensor_type.h"

namespace bulkhead::tools {
namespace {

constexpr size_t kShownBytes = 40;

}  // namespace

double ElementAt(const Tensor& tensor, uint64_t index) {
  const char* at = static_cast<const char*>(tensor.data) + index * tensor.element_bytes;
  v1::DType dtype = DTypeOf(tensor);
  if (dtype == v1::DTYPE_BYTES) return 0;
  if (dtype == v1::DTYPE_COMPLEX64) dtype = v1::DTYPE_FLOAT32;  // the real part comes first
  if (dtype == v1::DTYPE_COMPLEX128) dtype = v1::DTYPE_FLOAT64;
  double value = 0;
  CastElements(dtype, at, v1::DTYPE_FLOAT64, &value, 1);
  return value;
}

uint64_t ElementsOfRow(const Tensor& tensor) {
  uint64_t elements = 1;
  for (size_t i = 1; i < tensor.shape.size(); ++i) elements *= tensor.shape[i];
  return elements;
}

uint64_t FirstElementOf(const Tensor& tensor, uint64_t sample) {
  const uint64_t row =
      tensor.row_offsets == nullptr ? sample : static_cast<uint64_t>(tensor.row_offsets[sample]);
  return row * ElementsOfRow(tensor);
}

TensorStats ComputeStats(const Tensor& tensor, uint64_t samples) {
  TensorStats stats;
  double sum = 0;
  for (uint64_t i = 0; i < FirstElementOf(tensor, samples); ++i) {
    const double value = ElementAt(tensor, i);
    if (!std::isfinite(value)) {
      ++stats.not_finite;
      continue;
    }
    stats.min = stats.finite == 0 ? value : std::min(stats.min, value);
    stats.max = stats.finite == 0 ? value : std::max(stats.max, value);
    sum += value;
    ++stats.finite;
  }
  if (stats.finite > 0) stats.mean = sum / static_cast<double>(stats.finite);
  return stats;
}

std::string DescribeTensor(const Tensor& tensor, uint64_t samples) {
  std::string text = absl::StrCat(
      tensor.name, "  ", ElementTypeName(tensor.dtype),
      tensor.dtype == ElementType::kBytes ? absl::StrCat("<=", tensor.element_bytes) : "", "[",
      absl::StrJoin(tensor.shape, ","), "]");
  if (tensor.dtype == ElementType::kBytes) {
    if (FirstElementOf(tensor, samples) == 0) return text;
    std::string first(static_cast<const char*>(tensor.data), tensor.element_bytes);
    first.erase(first.find_last_not_of('\0') + 1);
    return absl::StrCat(text, "  first \"", absl::CHexEscape(first.substr(0, kShownBytes)),
                        first.size() > kShownBytes ? "…\"" : "\"");
  }
  const TensorStats stats = ComputeStats(tensor, samples);
  if (stats.finite > 0) {
    absl::StrAppendFormat(&text, "  min %.6g  max %.6g  mean %.6g", stats.min, stats.max,
                          stats.mean);
  }
  if (stats.not_finite > 0) {
    absl::StrAppendFormat(&text, "  NOT FINITE: %d elements", stats.not_finite);
  }
  return text;
}

}  // namespace bulkhead::tools
