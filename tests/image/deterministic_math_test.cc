#include "server/image/deterministic_math.h"

#include <gtest/gtest.h>

#include <cmath>

namespace bulkhead {
namespace {

TEST(DeterministicSinCosTest, IsCloseToLibmAndStaysAsItIs) {
  for (double degrees = -800; degrees < 800; degrees += 0.37) {
    const SinCos made = DeterministicSinCos(degrees);
    const double radians = degrees * 0.017453292519943295;
    EXPECT_NEAR(made.sin, std::sin(radians), 4e-15) << degrees;
    EXPECT_NEAR(made.cos, std::cos(radians), 4e-15) << degrees;
    EXPECT_NEAR(made.sin * made.sin + made.cos * made.cos, 1, 4e-16);
  }
  EXPECT_EQ(DeterministicSinCos(33.3).sin, 0x1.191984d01e95bp-1);
  EXPECT_EQ(DeterministicSinCos(33.3).cos, 0x1.abeef145aa617p-1);
}

TEST(DeterministicSinCosTest, QuartersAreExact) {
  const struct {
    double degrees;
    double sin;
    double cos;
  } quarters[] = {{0, 0, 1}, {90, 1, 0}, {180, 0, -1}, {270, -1, 0}, {-90, -1, 0}, {720, 0, 1}};
  for (const auto& quarter : quarters) {
    EXPECT_EQ(DeterministicSinCos(quarter.degrees).sin, quarter.sin) << quarter.degrees;
    EXPECT_EQ(DeterministicSinCos(quarter.degrees).cos, quarter.cos) << quarter.degrees;
  }
}

}  // namespace
}  // namespace bulkhead
