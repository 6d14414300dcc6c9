#include "server/base/cast.h"

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace bulkhead {
namespace {

// Storage types that name the meaning of their bits.
struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};
struct Bool {
  uint8_t bits;
};

// Rounds to nearest even; NaN stays NaN.
uint16_t FloatToHalfBits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;   // NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 and above round to infinity
  if (magnitude < 0x38800000) {
    // Subnormal: units of 2^-24. Adding 0.5 = 2^23 units lets the FPU round them to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000);
  }
  // Rebias the exponent by 15 − 127 and round the 13 dropped bits to nearest even.
  const uint32_t rebased = magnitude - ((127 - 15) << 23);
  return sign | static_cast<uint16_t>((rebased + 0xfff + (rebased >> 13 & 1)) >> 13);
}

uint16_t FloatToBfloat16Bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float HalfBitsToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 0x1f;
  const uint32_t mantissa = bits & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
}

float Bfloat16BitsToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// The number that a stored element represents.
template <typename T>
T Load(T value) {
  return value;
}
float Load(Half value) { return HalfBitsToFloat(value.bits); }
float Load(Bfloat16 value) { return Bfloat16BitsToFloat(value.bits); }
uint8_t Load(Bool value) { return value.bits != 0 ? 1 : 0; }

// `value` as a float32 whose last bit is set if it is inexact ("round to odd"). Rounding that
// again, to a format at least two bits narrower, gives the same as rounding `value` itself.
template <typename T>
float RoundToOddFloat(T value) {
  if constexpr (std::is_integral_v<T> && sizeof(T) <= 2) return value;  // exact in float32
  // Holds every number of the type.
  using Wide = std::conditional_t<std::is_integral_v<T> && sizeof(T) == 8, long double, double>;
  const auto rounded = static_cast<float>(value);
  const Wide exact = static_cast<Wide>(value);
  const Wide back = static_cast<Wide>(rounded);
  if (back == exact || exact != exact) return rounded;
  uint32_t bits = std::bit_cast<uint32_t>(rounded);
  if ((bits & 1) != 0) return rounded;
  // Take the odd neighbour on the side of the exact value; magnitudes compare like integers.
  const bool away_from_zero = (back < exact) == (exact > 0);
  bits = away_from_zero ? bits + 1 : bits - 1;
  return std::bit_cast<float>(bits);
}

template <typename To, Overflow overflow, typename From>
To ToInteger(From value) {
  using Limits = std::numeric_limits<To>;
  if constexpr (std::is_floating_point_v<From>) {
    if (value != value) return 0;
    // Both bounds are powers of two (or 0), hence exact in any float type.
    constexpr auto low = static_cast<From>(Limits::min());
    constexpr auto above = static_cast<From>(static_cast<double>(Limits::max() / 2 + 1) * 2.0);
    if (value <= low) return Limits::min();
    if (value >= above) return Limits::max();
    return static_cast<To>(value);
  } else {
    if constexpr (overflow == Overflow::kClamp) {
      // Compilers vectorise signed 64-bit comparisons best.
      if constexpr (std::is_same_v<From, uint64_t> || std::is_same_v<To, uint64_t>) {
        if (std::cmp_less(value, Limits::min())) return Limits::min();
        if (std::cmp_greater(value, Limits::max())) return Limits::max();
      } else {
        const auto wide = static_cast<int64_t>(value);
        if (wide < static_cast<int64_t>(Limits::min())) return Limits::min();
        if (wide > static_cast<int64_t>(Limits::max())) return Limits::max();
      }
    }
    return static_cast<To>(value);
  }
}

template <typename To, Overflow overflow, typename From>
To Convert(From value) {
  if constexpr (std::is_same_v<To, Half>) {
    return Half{FloatToHalfBits(RoundToOddFloat(value))};
  } else if constexpr (std::is_same_v<To, Bfloat16>) {
    return Bfloat16{FloatToBfloat16Bits(RoundToOddFloat(value))};
  } else if constexpr (std::is_same_v<To, Bool>) {
    return Bool{static_cast<uint8_t>(value != From{0} ? 1 : 0)};
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else {
    return ToInteger<To, overflow>(value);
  }
}

template <typename From, typename To, Overflow overflow>
void CastLoop(const uint8_t* in, uint8_t* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    From element;
    std::memcpy(&element, in + i * sizeof(From), sizeof(From));
    const To converted = Convert<To, overflow>(Load(element));
    std::memcpy(out + i * sizeof(To), &converted, sizeof(To));
  }
}

// Calls `body` with a value of the storage type of `type`.
template <typename Body>
auto WithType(v1::DType type, const Body& body) {
  switch (type) {
    case v1::DTYPE_UINT8:
      return body(uint8_t{});
    case v1::DTYPE_INT8:
      return body(int8_t{});
    case v1::DTYPE_UINT16:
      return body(uint16_t{});
    case v1::DTYPE_INT16:
      return body(int16_t{});
    case v1::DTYPE_UINT32:
      return body(uint32_t{});
    case v1::DTYPE_INT32:
      return body(int32_t{});
    case v1::DTYPE_UINT64:
      return body(uint64_t{});
    case v1::DTYPE_INT64:
      return body(int64_t{});
    case v1::DTYPE_FLOAT16:
      return body(Half{});
    case v1::DTYPE_BFLOAT16:
      return body(Bfloat16{});
    case v1::DTYPE_FLOAT32:
      return body(float{});
    case v1::DTYPE_FLOAT64:
      return body(double{});
    case v1::DTYPE_BOOL:
      return body(Bool{});
    default:
      std::abort();  // the caller failed to check its types
  }
}

}  // namespace

void CastElements(v1::DType from, const void* in, v1::DType to, void* out, size_t count,
                  Overflow overflow) {
  if (count == 0) return;
  const auto* const read = static_cast<const uint8_t*>(in);
  auto* const written = static_cast<uint8_t*>(out);
  WithType(from, [&](auto source) {
    WithType(to, [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
        if (overflow == Overflow::kWrap) {
          return CastLoop<From, To, Overflow::kWrap>(read, written, count);
        }
      }
      CastLoop<From, To, Overflow::kClamp>(read, written, count);
    });
  });
}

}  // namespace bulkhead
