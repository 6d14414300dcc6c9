#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "bulkhead/batch.h"
#include "client/cpp/internal/base/element_type.h"

namespace bulkhead {
namespace {

// Rounds to nearest even, as server/base/cast.cc does, which clients do not link. `value` is no
// NaN.
uint16_t HalfBits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 and above round to infinity
  if (magnitude < 0x38800000) {
    // Subnormal: units of 2^-24, which an addition to 0.5 = 2^23 units rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000);
  }
  const uint32_t rebased = magnitude - ((127 - 15) << 23);
  return sign | static_cast<uint16_t>((rebased + 0xfff + (rebased >> 13 & 1)) >> 13);
}

uint16_t Bfloat16Bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The result for each byte of channel `c`.
std::array<float, 256> TableOf(const Normalization& rest, size_t c) {
  const float first = rest.first[rest.first.size() == 1 ? 0 : c];
  const float second = rest.second[rest.second.size() == 1 ? 0 : c];
  std::array<float, 256> table;
  for (size_t x = 0; x < table.size(); ++x) {
    const auto value = static_cast<float>(x);
    table[x] = rest.divides_first ? value / first - second : (value - first) / second;
  }
  return table;
}

// Channel `c` of all samples, by `table`.
template <typename T>
void Look(const Tensor& tensor, size_t c, const std::array<T, 256>& table, T* out) {
  const auto channels = static_cast<size_t>(tensor.shape.back());
  const bool planes = tensor.normalization->channels_first;
  // Pixels that lie behind one another in the result: of an image, or all.
  const size_t pixels = planes ? tensor.shape.end()[-3] * tensor.shape.end()[-2]
                               : tensor.bytes / std::max<size_t>(channels, 1);
  const size_t images = pixels == 0 ? 0 : tensor.bytes / (pixels * channels);
  const auto* in = static_cast<const uint8_t*>(tensor.data) + c;
  for (size_t i = 0; i < images; ++i) {
    T* to = out + i * pixels * channels + (planes ? c * pixels : c);
    for (size_t p = 0; p < pixels; ++p, in += channels) to[planes ? p : p * channels] = table[*in];
  }
}

}  // namespace

uint64_t NormalizedBytes(const Tensor& tensor) {
  if (tensor.normalization == nullptr) return tensor.bytes;
  return tensor.bytes * client_internal::RowOf(tensor.normalization->dtype).bytes;
}

Tensor Normalized(const Tensor& tensor, void* out) {
  Tensor result = tensor;
  if (tensor.normalization == nullptr) return result;
  const Normalization& rest = *tensor.normalization;
  for (size_t c = 0; c < static_cast<size_t>(tensor.shape.back()); ++c) {
    const std::array<float, 256> floats = TableOf(rest, c);
    if (rest.dtype == ElementType::kFloat32) {
      Look(tensor, c, floats, static_cast<float*>(out));
      continue;
    }
    std::array<uint16_t, 256> bits;
    std::transform(floats.begin(), floats.end(), bits.begin(),
                   rest.dtype == ElementType::kFloat16 ? HalfBits : Bfloat16Bits);
    Look(tensor, c, bits, static_cast<uint16_t*>(out));
  }
  result.dtype = rest.dtype;
  result.element_bytes = client_internal::RowOf(rest.dtype).bytes;
  result.bytes = NormalizedBytes(tensor);
  result.data = out;
  result.normalization = nullptr;
  if (rest.channels_first) {
    std::rotate(result.shape.end() - 3, result.shape.end() - 1, result.shape.end());
  }
  return result;
}

}  // namespace bulkhead
