#include "server/source/element_cast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace bulkhead {
namespace {

template <typename Out, typename In>
Out Convert(StoredType from, In value, StoredType to) {
  Out out{};
  ConvertElements(from, reinterpret_cast<const char*>(&value), to, reinterpret_cast<char*>(&out),
                  1);
  return out;
}

TEST(ElementCastTest, IntegersWrapAndFloatsTruncateAndClamp) {
  using enum StoredType;
  EXPECT_EQ((Convert<uint8_t, int64_t>(kInt64, 257, kUint8)), 1);
  EXPECT_EQ((Convert<int8_t, uint8_t>(kUint8, 255, kInt8)), -1);
  EXPECT_EQ((Convert<int32_t, double>(kFloat64, -2.9, kInt32)), -2);
  EXPECT_EQ((Convert<uint8_t, double>(kFloat64, 300.5, kUint8)), 255);
  EXPECT_EQ((Convert<uint8_t, double>(kFloat64, -1, kUint8)), 0);
  EXPECT_EQ((Convert<int64_t, float>(kFloat32, 1e30f, kInt64)), INT64_MAX);
  EXPECT_EQ((Convert<int64_t, float>(kFloat32, -1e30f, kInt64)), INT64_MIN);
  EXPECT_EQ((Convert<int32_t, float>(kFloat32, std::nanf(""), kInt32)), 0);
  EXPECT_EQ((Convert<float, double>(kFloat64, 0.1, kFloat32)), 0.1f);
  EXPECT_EQ((Convert<uint8_t, double>(kFloat64, 0.25, kBool)), 1);
  EXPECT_EQ((Convert<float, uint8_t>(kBool, 7, kFloat32)), 1.0f);
}

TEST(ElementCastTest, EveryHalfSurvivesTheWayThroughDouble) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto value = Convert<double, uint16_t>(StoredType::kFloat16, bits, StoredType::kFloat64);
    const auto back = Convert<uint16_t, double>(StoredType::kFloat64, value, StoredType::kFloat16);
    if (std::isnan(value)) {
      EXPECT_EQ(back & 0x7fff, 0x7e00) << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
  EXPECT_EQ((Convert<double, uint16_t>(StoredType::kFloat16, 0x3555, StoredType::kFloat64)),
            0.333251953125);
}

TEST(ElementCastTest, NarrowFloatsRoundOnceToNearestEven) {
  using enum StoredType;
  const auto half = [](double value) {
    return Convert<uint16_t, double>(kFloat64, value, kFloat16);
  };
  EXPECT_EQ(half(1 + std::ldexp(1, -11)), 0x3c00);                       // a tie goes to even
  EXPECT_EQ(half(1 + std::ldexp(3, -11)), 0x3c02);                       // a tie goes to even
  EXPECT_EQ(half(1 + std::ldexp(1, -11) + std::ldexp(1, -40)), 0x3c01);  // no double rounding
  EXPECT_EQ(half(65519.99), 0x7bff);
  EXPECT_EQ(half(65520), 0x7c00);                // infinity
  EXPECT_EQ(half(-std::ldexp(1, -24)), 0x8001);  // smallest subnormal
  EXPECT_EQ(half(std::ldexp(1, -25)), 0);
  EXPECT_EQ((Convert<uint16_t, float>(kFloat32, 1.00390625f, kBfloat16)), 0x3f80);
  EXPECT_EQ((Convert<uint16_t, float>(kFloat32, 1.01171875f, kBfloat16)), 0x3f82);
  EXPECT_EQ((Convert<uint16_t, float>(kFloat32, std::numeric_limits<float>::max(), kBfloat16)),
            0x7f80);
}

}  // namespace
}  // namespace bulkhead
