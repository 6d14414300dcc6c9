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

// Of the numbers that `number_at` gives for `first` up to `end`.
template <typename NumberAt>
TensorStats StatsOf(uint64_t first, uint64_t end, const NumberAt& number_at) {
  TensorStats stats;
  double sum = 0;
  for (uint64_t i = first; i < end; ++i) {
    const double value = number_at(i);
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
  return ComputeStats(tensor, 0, FirstElementOf(tensor, samples));
}

TensorStats ComputeStats(const Tensor& tensor, uint64_t first, uint64_t end) {
  return StatsOf(first, end, [&](uint64_t i) { return ElementAt(tensor, i); });
}

TensorStats ComputeStats(const std::vector<double>& numbers) {
  return StatsOf(0, numbers.size(), [&](uint64_t i) { return numbers[i]; });
}

TensorStats Together(const TensorStats& a, const TensorStats& b) {
  TensorStats both = a.finite == 0 ? b : a;
  both.finite = a.finite + b.finite;
  both.not_finite = a.not_finite + b.not_finite;
  if (a.finite == 0 || b.finite == 0) return both;
  both.min = std::min(a.min, b.min);
  both.max = std::max(a.max, b.max);
  both.mean =
      a.mean + (b.mean - a.mean) * static_cast<double>(b.finite) / static_cast<double>(both.finite);
  return both;
}

std::string DescribeStats(const TensorStats& stats) {
  std::string text;
  if (stats.finite > 0) {
    absl::StrAppendFormat(&text, "  min %.6g  max %.6g  mean %.6g", stats.min, stats.max,
                          stats.mean);
  }
  if (stats.not_finite > 0) {
    absl::StrAppendFormat(&text, "  NOT FINITE: %d elements", stats.not_finite);
  }
  return text;
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
  return text + DescribeStats(ComputeStats(tensor, samples));
}

}  // namespace bulkhead::tools
