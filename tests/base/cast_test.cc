#include "server/base/cast.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace bulkhead {
namespace {

template <typename To, typename From>
To Cast(v1::DType from, From value, v1::DType to, Overflow overflow = Overflow::kClamp) {
  To result;
  CastElements(from, &value, to, &result, 1, overflow);
  return result;
}

uint16_t FloatToHalfBits(float value) {
  return Cast<uint16_t>(v1::DTYPE_FLOAT32, value, v1::DTYPE_FLOAT16);
}
uint16_t FloatToBfloat16Bits(float value) {
  return Cast<uint16_t>(v1::DTYPE_FLOAT32, value, v1::DTYPE_BFLOAT16);
}
float HalfBitsToFloat(uint16_t bits) {
  return Cast<float>(v1::DTYPE_FLOAT16, bits, v1::DTYPE_FLOAT32);
}
float Bfloat16BitsToFloat(uint16_t bits) {
  return Cast<float>(v1::DTYPE_BFLOAT16, bits, v1::DTYPE_FLOAT32);
}

TEST(CastTest, IntegersAreClamped) {
  EXPECT_EQ(Cast<uint8_t>(v1::DTYPE_INT32, int32_t{-5}, v1::DTYPE_UINT8), 0);
  EXPECT_EQ(Cast<uint8_t>(v1::DTYPE_INT32, int32_t{300}, v1::DTYPE_UINT8), 255);
  EXPECT_EQ(Cast<int8_t>(v1::DTYPE_UINT8, uint8_t{200}, v1::DTYPE_INT8), 127);
  EXPECT_EQ(Cast<int32_t>(v1::DTYPE_INT64, int64_t{1} << 40, v1::DTYPE_INT32), INT32_MAX);
  EXPECT_EQ(Cast<int32_t>(v1::DTYPE_INT64, -(int64_t{1} << 40), v1::DTYPE_INT32), INT32_MIN);
  EXPECT_EQ(Cast<int64_t>(v1::DTYPE_UINT16, uint16_t{65535}, v1::DTYPE_INT64), 65535);
}

TEST(CastTest, FloatsAreTruncatedAndClampedAndNanIsZero) {
  EXPECT_EQ(Cast<uint8_t>(v1::DTYPE_FLOAT32, 254.9f, v1::DTYPE_UINT8), 254);
  EXPECT_EQ(Cast<int8_t>(v1::DTYPE_FLOAT32, -1.9f, v1::DTYPE_INT8), -1);
  EXPECT_EQ(Cast<uint8_t>(v1::DTYPE_FLOAT32, -1.9f, v1::DTYPE_UINT8), 0);
  EXPECT_EQ(Cast<int64_t>(v1::DTYPE_FLOAT64, 1e300, v1::DTYPE_INT64), INT64_MAX);
  EXPECT_EQ(Cast<int64_t>(v1::DTYPE_FLOAT64, -1e300, v1::DTYPE_INT64), INT64_MIN);
  EXPECT_EQ(Cast<int32_t>(v1::DTYPE_FLOAT32, 2147483648.0f, v1::DTYPE_INT32), INT32_MAX);
  EXPECT_EQ(Cast<int32_t>(v1::DTYPE_FLOAT64, 2147483646.5, v1::DTYPE_INT32), 2147483646);
  EXPECT_EQ(Cast<int32_t>(v1::DTYPE_FLOAT32, std::nanf(""), v1::DTYPE_INT32), 0);
}

TEST(CastTest, BoolIsNonZero) {
  EXPECT_EQ(Cast<uint8_t>(v1::DTYPE_FLOAT32, 0.25f, v1::DTYPE_BOOL), 1);
  EXPECT_EQ(Cast<uint8_t>(v1::DTYPE_FLOAT32, -0.0f, v1::DTYPE_BOOL), 0);
  EXPECT_EQ(Cast<uint8_t>(v1::DTYPE_FLOAT32, std::nanf(""), v1::DTYPE_BOOL), 1);
  EXPECT_EQ(Cast<uint8_t>(v1::DTYPE_INT64, int64_t{256}, v1::DTYPE_BOOL), 1);
  EXPECT_EQ(Cast<float>(v1::DTYPE_BOOL, uint8_t{7}, v1::DTYPE_FLOAT32), 1.0f);
}

#if defined(__FLT16_MAX__)
TEST(CastTest, HalfIsTheCompilersForEveryExponentAndManyMantissas) {
  for (uint64_t bits = 0; bits <= 0xffffffff; bits += 1021) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    const uint16_t expected = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(HalfBitsToFloat(FloatToHalfBits(value))));
    } else {
      ASSERT_EQ(FloatToHalfBits(value), expected) << value;
    }
  }
}
#endif

TEST(CastTest, EveryHalfSurvivesAWayThroughFloat) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float value = HalfBitsToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(FloatToHalfBits(value), bits);
  }
  EXPECT_EQ(HalfBitsToFloat(0x3c00), 1.0f);
  EXPECT_EQ(HalfBitsToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfBitsToFloat(0xfbff), -65504.0f);
  EXPECT_EQ(FloatToHalfBits(65519.996f), 0x7bff);
  EXPECT_EQ(FloatToHalfBits(65520.0f), 0x7c00);
}

TEST(CastTest, Bfloat16RoundsToNearestEven) {
  EXPECT_EQ(FloatToBfloat16Bits(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie, even below
  EXPECT_EQ(FloatToBfloat16Bits(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // tie, even above
  EXPECT_EQ(FloatToBfloat16Bits(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(FloatToBfloat16Bits(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(Bfloat16BitsToFloat(FloatToBfloat16Bits(std::nanf("")))));
}

TEST(CastTest, NarrowingRoundsOnlyOnce) {
  // Just above the tie between 1 and the next half: float32 cannot tell it from the tie.
  const double above = 1.0 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(Cast<uint16_t>(v1::DTYPE_FLOAT64, above, v1::DTYPE_FLOAT16), 0x3c01);
  const double below = 1.0 + 3 * 0x1p-11 - 0x1p-40;
  EXPECT_EQ(Cast<uint16_t>(v1::DTYPE_FLOAT64, below, v1::DTYPE_FLOAT16), 0x3c01);
  EXPECT_EQ(Cast<uint16_t>(v1::DTYPE_FLOAT64, -above, v1::DTYPE_FLOAT16), 0xbc01);
  // 2^40 + 2^32 is a tie between bfloat16s; one more is above it, but not for a float32.
  const int64_t tie = (int64_t{1} << 40) + (int64_t{1} << 32);
  EXPECT_EQ(Cast<uint16_t>(v1::DTYPE_INT64, tie, v1::DTYPE_BFLOAT16), 0x5380);
  EXPECT_EQ(Cast<uint16_t>(v1::DTYPE_INT64, tie + 1, v1::DTYPE_BFLOAT16), 0x5381);
  EXPECT_EQ(Cast<uint16_t>(v1::DTYPE_FLOAT64, 1e300, v1::DTYPE_FLOAT16), 0x7c00);
  EXPECT_EQ(Cast<uint16_t>(v1::DTYPE_FLOAT64, 1e-300, v1::DTYPE_FLOAT16), 0x0000);
}

TEST(CastTest, EveryPairKeepsSmallNumbersAndUnalignedMemoryServes) {
  const v1::DType types[] = {
      v1::DTYPE_UINT8, v1::DTYPE_INT8,    v1::DTYPE_UINT16,   v1::DTYPE_INT16,   v1::DTYPE_INT32,
      v1::DTYPE_INT64, v1::DTYPE_FLOAT16, v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT32, v1::DTYPE_FLOAT64};
  const uint8_t numbers[] = {0, 1, 2, 3, 100, 127};
  for (const v1::DType from : types) {
    for (const v1::DType to : types) {
      std::vector<uint8_t> first(1 + 6 * 8);
      std::vector<uint8_t> second(1 + 6 * 8);
      uint8_t back[6];
      CastElements(v1::DTYPE_UINT8, numbers, from, first.data() + 1, 6);
      CastElements(from, first.data() + 1, to, second.data() + 1, 6);
      CastElements(to, second.data() + 1, v1::DTYPE_UINT8, back, 6);
      ASSERT_EQ(0, std::memcmp(back, numbers, 6));
    }
  }
}

TEST(CastTest, IntegersWrapWhereAskedAndFloatsStillClamp) {
  const auto wrapped = [](auto to, v1::DType from, auto value, v1::DType type) {
    return Cast<decltype(to)>(from, value, type, Overflow::kWrap);
  };
  EXPECT_EQ(wrapped(uint8_t{}, v1::DTYPE_INT64, int64_t{257}, v1::DTYPE_UINT8), 1);
  EXPECT_EQ(wrapped(int8_t{}, v1::DTYPE_UINT8, uint8_t{255}, v1::DTYPE_INT8), -1);
  EXPECT_EQ(wrapped(int32_t{}, v1::DTYPE_UINT32, uint32_t{0xffffffff}, v1::DTYPE_INT32), -1);
  EXPECT_EQ(wrapped(int64_t{}, v1::DTYPE_UINT64, uint64_t{1} << 63, v1::DTYPE_INT64), INT64_MIN);
  EXPECT_EQ(wrapped(int32_t{}, v1::DTYPE_FLOAT64, -2.9, v1::DTYPE_INT32), -2);
  EXPECT_EQ(wrapped(uint8_t{}, v1::DTYPE_FLOAT64, 300.5, v1::DTYPE_UINT8), 255);
  EXPECT_EQ(wrapped(uint8_t{}, v1::DTYPE_FLOAT64, -1.0, v1::DTYPE_UINT8), 0);
  EXPECT_EQ(wrapped(int64_t{}, v1::DTYPE_FLOAT32, 1e30f, v1::DTYPE_INT64), INT64_MAX);
  EXPECT_EQ(wrapped(int64_t{}, v1::DTYPE_FLOAT32, -1e30f, v1::DTYPE_INT64), INT64_MIN);
  EXPECT_EQ(wrapped(int32_t{}, v1::DTYPE_FLOAT32, std::nanf(""), v1::DTYPE_INT32), 0);
  EXPECT_EQ(wrapped(float{}, v1::DTYPE_FLOAT64, 0.1, v1::DTYPE_FLOAT32), 0.1f);
  EXPECT_EQ(wrapped(uint8_t{}, v1::DTYPE_FLOAT64, 0.25, v1::DTYPE_BOOL), 1);
  EXPECT_EQ(wrapped(float{}, v1::DTYPE_BOOL, uint8_t{7}, v1::DTYPE_FLOAT32), 1.0f);
}

TEST(CastTest, UnsignedNumbersAreReadToTheirLargest) {
  const uint64_t largest = UINT64_MAX;
  EXPECT_EQ(Cast<int64_t>(v1::DTYPE_UINT64, largest, v1::DTYPE_INT64), INT64_MAX);
  EXPECT_EQ(Cast<uint16_t>(v1::DTYPE_UINT64, largest, v1::DTYPE_UINT16), UINT16_MAX);
  EXPECT_EQ(Cast<int32_t>(v1::DTYPE_UINT32, uint32_t{UINT32_MAX}, v1::DTYPE_INT32), INT32_MAX);
  EXPECT_EQ(Cast<double>(v1::DTYPE_UINT64, largest, v1::DTYPE_FLOAT64), 0x1p64);
  EXPECT_EQ(Cast<uint64_t>(v1::DTYPE_INT8, int8_t{-1}, v1::DTYPE_UINT64), 0u);
}

TEST(CastTest, EveryHalfSurvivesTheWayThroughDouble) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto value =
        Cast<double>(v1::DTYPE_FLOAT16, static_cast<uint16_t>(bits), v1::DTYPE_FLOAT64);
    const auto back = Cast<uint16_t>(v1::DTYPE_FLOAT64, value, v1::DTYPE_FLOAT16);
    if (std::isnan(value)) {
      EXPECT_EQ(back & 0x7fff, 0x7e00) << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
  EXPECT_EQ(Cast<double>(v1::DTYPE_FLOAT16, uint16_t{0x3555}, v1::DTYPE_FLOAT64), 0.333251953125);
}

TEST(CastTest, NarrowFloatsRoundOnceToNearestEven) {
  const auto half = [](double value) {
    return Cast<uint16_t>(v1::DTYPE_FLOAT64, value, v1::DTYPE_FLOAT16);
  };
  EXPECT_EQ(half(1 + std::ldexp(1, -11)), 0x3c00);                       // a tie goes to even
  EXPECT_EQ(half(1 + std::ldexp(3, -11)), 0x3c02);                       // a tie goes to even
  EXPECT_EQ(half(1 + std::ldexp(1, -11) + std::ldexp(1, -40)), 0x3c01);  // no double rounding
  EXPECT_EQ(half(65519.99), 0x7bff);
  EXPECT_EQ(half(65520), 0x7c00);                // infinity
  EXPECT_EQ(half(-std::ldexp(1, -24)), 0x8001);  // smallest subnormal
  EXPECT_EQ(half(std::ldexp(1, -25)), 0);
  const auto bfloat = [](float value) {
    return Cast<uint16_t>(v1::DTYPE_FLOAT32, value, v1::DTYPE_BFLOAT16);
  };
  EXPECT_EQ(bfloat(1.00390625f), 0x3f80);
  EXPECT_EQ(bfloat(1.01171875f), 0x3f82);
  EXPECT_EQ(bfloat(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace bulkhead
