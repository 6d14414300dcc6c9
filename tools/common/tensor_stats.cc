#include "tools/common/tensor_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/little_endian.h"

namespace bulkhead::tools {
namespace {

constexpr size_t kShownBytes = 40;

double FromHalf(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  double value;
  if (exponent == 31) {
    value = fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                          : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(1024 + fraction, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

double FromBfloat(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  return LoadLittle<float>(&wide);
}

}  // namespace

double ElementAt(const Tensor& tensor, uint64_t index) {
  const char* at = static_cast<const char*>(tensor.data) + index * tensor.element_bytes;
  switch (tensor.dtype) {
    case ElementType::kUint8:
    case ElementType::kBool:
      return LoadLittle<uint8_t>(at);
    case ElementType::kInt8:
      return LoadLittle<int8_t>(at);
    case ElementType::kUint16:
      return LoadLittle<uint16_t>(at);
    case ElementType::kInt16:
      return LoadLittle<int16_t>(at);
    case ElementType::kInt32:
      return LoadLittle<int32_t>(at);
    case ElementType::kInt64:
      return static_cast<double>(LoadLittle<int64_t>(at));
    case ElementType::kFloat16:
      return FromHalf(LoadLittle<uint16_t>(at));
    case ElementType::kBfloat16:
      return FromBfloat(LoadLittle<uint16_t>(at));
    case ElementType::kFloat32:
      return LoadLittle<float>(at);
    case ElementType::kFloat64:
      return LoadLittle<double>(at);
    case ElementType::kUint32:
      return LoadLittle<uint32_t>(at);
    case ElementType::kUint64:
      return static_cast<double>(LoadLittle<uint64_t>(at));
    // Of a complex number, the real part.
    case ElementType::kComplex64:
      return LoadLittle<float>(at);
    case ElementType::kComplex128:
      return LoadLittle<double>(at);
    case ElementType::kBytes:
      break;
  }
  return 0;
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
