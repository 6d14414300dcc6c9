#include "server/image/cast.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace bulkhead {
namespace {

template <typename To, typename From>
To Cast(ElementType from, From value, ElementType to) {
  To result;
  CastElements(from, &value, to, &result, 1);
  return result;
}

TEST(CastTest, IntegersAreClamped) {
  EXPECT_EQ(Cast<uint8_t>(ElementType::kInt32, int32_t{-5}, ElementType::kUint8), 0);
  EXPECT_EQ(Cast<uint8_t>(ElementType::kInt32, int32_t{300}, ElementType::kUint8), 255);
  EXPECT_EQ(Cast<int8_t>(ElementType::kUint8, uint8_t{200}, ElementType::kInt8), 127);
  EXPECT_EQ(Cast<int32_t>(ElementType::kInt64, int64_t{1} << 40, ElementType::kInt32), INT32_MAX);
  EXPECT_EQ(Cast<int32_t>(ElementType::kInt64, -(int64_t{1} << 40), ElementType::kInt32),
            INT32_MIN);
  EXPECT_EQ(Cast<int64_t>(ElementType::kUint16, uint16_t{65535}, ElementType::kInt64), 65535);
}

TEST(CastTest, FloatsAreTruncatedAndClampedAndNanIsZero) {
  EXPECT_EQ(Cast<uint8_t>(ElementType::kFloat32, 254.9f, ElementType::kUint8), 254);
  EXPECT_EQ(Cast<int8_t>(ElementType::kFloat32, -1.9f, ElementType::kInt8), -1);
  EXPECT_EQ(Cast<uint8_t>(ElementType::kFloat32, -1.9f, ElementType::kUint8), 0);
  EXPECT_EQ(Cast<int64_t>(ElementType::kFloat64, 1e300, ElementType::kInt64), INT64_MAX);
  EXPECT_EQ(Cast<int64_t>(ElementType::kFloat64, -1e300, ElementType::kInt64), INT64_MIN);
  EXPECT_EQ(Cast<int32_t>(ElementType::kFloat32, 2147483648.0f, ElementType::kInt32), INT32_MAX);
  EXPECT_EQ(Cast<int32_t>(ElementType::kFloat64, 2147483646.5, ElementType::kInt32), 2147483646);
  EXPECT_EQ(Cast<int32_t>(ElementType::kFloat32, std::nanf(""), ElementType::kInt32), 0);
}

TEST(CastTest, BoolIsNonZero) {
  EXPECT_EQ(Cast<uint8_t>(ElementType::kFloat32, 0.25f, ElementType::kBool), 1);
  EXPECT_EQ(Cast<uint8_t>(ElementType::kFloat32, -0.0f, ElementType::kBool), 0);
  EXPECT_EQ(Cast<uint8_t>(ElementType::kFloat32, std::nanf(""), ElementType::kBool), 0);
  EXPECT_EQ(Cast<uint8_t>(ElementType::kInt64, int64_t{256}, ElementType::kBool), 1);
  EXPECT_EQ(Cast<float>(ElementType::kBool, uint8_t{7}, ElementType::kFloat32), 1.0f);
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
  EXPECT_EQ(Cast<uint16_t>(ElementType::kFloat64, above, ElementType::kFloat16), 0x3c01);
  const double below = 1.0 + 3 * 0x1p-11 - 0x1p-40;
  EXPECT_EQ(Cast<uint16_t>(ElementType::kFloat64, below, ElementType::kFloat16), 0x3c01);
  EXPECT_EQ(Cast<uint16_t>(ElementType::kFloat64, -above, ElementType::kFloat16), 0xbc01);
  // 2^40 + 2^32 is a tie between bfloat16s; one more is above it, but not for a float32.
  const int64_t tie = (int64_t{1} << 40) + (int64_t{1} << 32);
  EXPECT_EQ(Cast<uint16_t>(ElementType::kInt64, tie, ElementType::kBfloat16), 0x5380);
  EXPECT_EQ(Cast<uint16_t>(ElementType::kInt64, tie + 1, ElementType::kBfloat16), 0x5381);
  EXPECT_EQ(Cast<uint16_t>(ElementType::kFloat64, 1e300, ElementType::kFloat16), 0x7c00);
  EXPECT_EQ(Cast<uint16_t>(ElementType::kFloat64, 1e-300, ElementType::kFloat16), 0x0000);
}

TEST(CastTest, EveryPairKeepsSmallNumbersAndUnalignedMemoryServes) {
  const ElementType types[] = {ElementType::kUint8,   ElementType::kInt8,     ElementType::kUint16,
                               ElementType::kInt16,   ElementType::kInt32,    ElementType::kInt64,
                               ElementType::kFloat16, ElementType::kBfloat16, ElementType::kFloat32,
                               ElementType::kFloat64};
  const uint8_t numbers[] = {0, 1, 2, 3, 100, 127};
  for (const ElementType from : types) {
    for (const ElementType to : types) {
      std::vector<uint8_t> first(1 + 6 * 8);
      std::vector<uint8_t> second(1 + 6 * 8);
      uint8_t back[6];
      CastElements(ElementType::kUint8, numbers, from, first.data() + 1, 6);
      CastElements(from, first.data() + 1, to, second.data() + 1, 6);
      CastElements(to, second.data() + 1, ElementType::kUint8, back, 6);
      ASSERT_EQ(0, std::memcmp(back, numbers, 6));
    }
  }
}

}  // namespace
}  // namespace bulkhead
