#include "server/source/element_cast.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "server/base/little_endian.h"

namespace bulkhead {
namespace {

// Tags for the types that C++ has no name for.
struct Half {};
struct Bfloat16 {};

// Calls `f` with a value of the C++ type that stands for `type`.
template <typename F>
auto WithType(StoredType type, F f) {
  switch (type) {
    case StoredType::kUint8:
      return f(uint8_t{});
    case StoredType::kInt8:
      return f(int8_t{});
    case StoredType::kUint16:
      return f(uint16_t{});
    case StoredType::kInt16:
      return f(int16_t{});
    case StoredType::kUint32:
      return f(uint32_t{});
    case StoredType::kInt32:
      return f(int32_t{});
    case StoredType::kUint64:
      return f(uint64_t{});
    case StoredType::kInt64:
      return f(int64_t{});
    case StoredType::kFloat16:
      return f(Half{});
    case StoredType::kBfloat16:
      return f(Bfloat16{});
    case StoredType::kFloat64:
      return f(double{});
    case StoredType::kBool:
      return f(bool{});
    case StoredType::kFloat32:
    case StoredType::kNone:
      break;
  }
  return f(float{});
}

double HalfToDouble(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  double magnitude;
  if (exponent == 31) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else {
    magnitude =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  }
  return std::copysign(magnitude, (bits & 0x8000) != 0 ? -1.0 : 1.0);
}

// Rounds a double once, to nearest even, to a 16-bit float of `fraction_bits` fraction bits and
// the exponents of `min_exponent` (smallest normal) … `max_exponent`.
uint16_t NarrowTo16(double value, int fraction_bits, int min_exponent, int max_exponent) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const uint16_t infinity =
      static_cast<uint16_t>((max_exponent - min_exponent + 2) << fraction_bits);
  if (std::isnan(value)) return sign | infinity | static_cast<uint16_t>(1 << (fraction_bits - 1));
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | infinity;
  int exponent = std::ilogb(magnitude);
  if (exponent > max_exponent) return sign | infinity;
  if (exponent < min_exponent) exponent = min_exponent;  // subnormal: a fixed step
  // Scaling by a power of two is exact; nearbyint rounds to nearest even.
  const auto steps =
      static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, fraction_bits - exponent)));
  // A carry out of the fraction moves into the exponent's bits, and at the top makes infinity.
  const uint32_t base = static_cast<uint32_t>(exponent - min_exponent) << fraction_bits;
  return static_cast<uint16_t>(sign | (base + steps));
}

template <typename Out, typename In>
Out ToInteger(In value) {
  if constexpr (std::is_floating_point_v<In>) {
    if (std::isnan(value)) return 0;
    // Both bounds are powers of two (or zero), so exact in any float.
    constexpr In kLow = static_cast<In>(std::numeric_limits<Out>::min());
    const In high = std::ldexp(In{1}, std::numeric_limits<Out>::digits);
    if (value <= kLow) return std::numeric_limits<Out>::min();
    if (value >= high) return std::numeric_limits<Out>::max();
  }
  return static_cast<Out>(value);
}

template <typename In>
auto Load(const char* at) {
  if constexpr (std::is_same_v<In, Half>) {
    return HalfToDouble(LoadLittle<uint16_t>(at));
  } else if constexpr (std::is_same_v<In, Bfloat16>) {
    return std::bit_cast<float>(static_cast<uint32_t>(LoadLittle<uint16_t>(at)) << 16);
  } else if constexpr (std::is_same_v<In, bool>) {
    return static_cast<uint8_t>(*at != 0);
  } else {
    return LoadLittle<In>(at);
  }
}

template <typename Out, typename Value>
void Store(char* at, Value value) {
  if constexpr (std::is_same_v<Out, Half>) {
    StoreLittle<uint16_t>(at, NarrowTo16(static_cast<double>(value), 10, -14, 15));
  } else if constexpr (std::is_same_v<Out, Bfloat16>) {
    StoreLittle<uint16_t>(at, NarrowTo16(static_cast<double>(value), 7, -126, 127));
  } else if constexpr (std::is_same_v<Out, bool>) {
    *at = value != 0 ? 1 : 0;
  } else if constexpr (std::is_integral_v<Out>) {
    StoreLittle<Out>(at, ToInteger<Out>(value));
  } else {
    StoreLittle<Out>(at, static_cast<Out>(value));
  }
}

}  // namespace

StoredType FromDType(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_UINT8:
      return StoredType::kUint8;
    case v1::DTYPE_INT8:
      return StoredType::kInt8;
    case v1::DTYPE_UINT16:
      return StoredType::kUint16;
    case v1::DTYPE_INT16:
      return StoredType::kInt16;
    case v1::DTYPE_INT32:
      return StoredType::kInt32;
    case v1::DTYPE_INT64:
      return StoredType::kInt64;
    case v1::DTYPE_FLOAT16:
      return StoredType::kFloat16;
    case v1::DTYPE_BFLOAT16:
      return StoredType::kBfloat16;
    case v1::DTYPE_FLOAT32:
      return StoredType::kFloat32;
    case v1::DTYPE_FLOAT64:
      return StoredType::kFloat64;
    case v1::DTYPE_BOOL:
      return StoredType::kBool;
    default:
      return StoredType::kNone;
  }
}

StoredType FromTensorFlow(uint64_t data_type) {
  switch (data_type) {
    case 1:
      return StoredType::kFloat32;
    case 2:
      return StoredType::kFloat64;
    case 3:
      return StoredType::kInt32;
    case 4:
      return StoredType::kUint8;
    case 5:
      return StoredType::kInt16;
    case 6:
      return StoredType::kInt8;
    case 9:
      return StoredType::kInt64;
    case 10:
      return StoredType::kBool;
    case 14:
      return StoredType::kBfloat16;
    case 17:
      return StoredType::kUint16;
    case 19:
      return StoredType::kFloat16;
    case 22:
      return StoredType::kUint32;
    case 23:
      return StoredType::kUint64;
    default:
      return StoredType::kNone;
  }
}

size_t StoredBytes(StoredType type) {
  return WithType(type, [](auto value) -> size_t {
    using T = decltype(value);
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
      return 2;
    } else {
      return sizeof(T);
    }
  });
}

absl::string_view StoredName(StoredType type) {
  static constexpr absl::string_view kNames[] = {
      "none",   "uint8", "int8",    "uint16",   "int16",   "uint32",  "int32",
      "uint64", "int64", "float16", "bfloat16", "float32", "float64", "bool"};
  return kNames[static_cast<int>(type)];
}

void ConvertElements(StoredType from, const char* in, StoredType to, char* out, size_t count) {
  const size_t in_bytes = StoredBytes(from);
  const size_t out_bytes = StoredBytes(to);
  WithType(from, [&](auto in_tag) {
    WithType(to, [&](auto out_tag) {
      using In = decltype(in_tag);
      using Out = decltype(out_tag);
      for (size_t i = 0; i < count; ++i)
        Store<Out>(out + i * out_bytes, Load<In>(in + i * in_bytes));
    });
  });
}

}  // namespace bulkhead
