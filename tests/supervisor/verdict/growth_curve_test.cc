#include "server/supervisor/verdict/growth_curve.h"

#include <gtest/gtest.h>

namespace bulkhead::growth_curve_test {
namespace {

template <typename Bytes>
GrowthCurve Curve(uint64_t samples, const Bytes& bytes_at, uint64_t step = 5) {
  GrowthCurve curve;
  for (uint64_t s = 1; s <= samples; s += step) curve.Note(s, static_cast<int64_t>(bytes_at(s)));
  return curve;
}

TEST(GrowthCurveTest, MeasuresWhatEachSampleKeeps) {
  const auto trend = Curve(20'000, [](uint64_t s) { return 1e6 + 4096.0 * s; }).Since(10'000);
  ASSERT_TRUE(trend.has_value());
  EXPECT_NEAR(trend->per_sample, 4096, 1);
  EXPECT_LT(trend->bound, 1);
  EXPECT_TRUE(trend->Grows());
  EXPECT_TRUE(trend->is_new_height);
}

TEST(GrowthCurveTest, TheBoundHoldsTheTruth) {
  // An arena of 1 MiB every 200 to 300 samples.
  const auto trend = Curve(30'000, [](uint64_t s) {
                       return (s / (s % 7 < 3 ? 250 : 260)) * 1048576.0;
                     }).Since(10'000);
  ASSERT_TRUE(trend.has_value());
  EXPECT_GT(trend->bound, 0);
  EXPECT_NEAR(trend->per_sample, 1048576.0 / 255, trend->bound + 120);
}

TEST(GrowthCurveTest, WhatSamplesTakeAndGiveBackIsNoGrowth) {
  const auto trend =
      Curve(20'000, [](uint64_t s) { return 1e6 + (s % 3 != 0 ? 50e6 : 0); }).Since(5'000);
  ASSERT_TRUE(trend.has_value());
  EXPECT_EQ(trend->per_sample, 0);
  EXPECT_FALSE(trend->Grows());
}

TEST(GrowthCurveTest, WhatLevelsOffSlows) {
  const auto trend = Curve(20'000, [](uint64_t s) {
                       return 1e8 * static_cast<double>(s) / (s + 5000.0);
                     }).Since(5'000);
  ASSERT_TRUE(trend.has_value());
  EXPECT_TRUE(trend->slows);
  EXPECT_FALSE(trend->Grows());
}

TEST(GrowthCurveTest, ABufferThatFillsAgainReachesNoNewHeight) {
  // It fills over 4,900 samples, so the part from 5,000 on begins with an empty one.
  const auto trend =
      Curve(9'700, [](uint64_t s) { return 1e4 * static_cast<double>(s % 4'900); }).Since(5'000);
  ASSERT_TRUE(trend.has_value());
  EXPECT_TRUE(trend->Grows());
  EXPECT_FALSE(trend->is_new_height);
}

TEST(GrowthCurveTest, NothingIsKnownOfAFewSamples) {
  EXPECT_FALSE(GrowthCurve().Since(0).has_value());
  EXPECT_FALSE(Curve(20, [](uint64_t s) { return s; }).Since(0).has_value());
  EXPECT_FALSE(Curve(5'000, [](uint64_t s) { return s; }).Since(4'990).has_value());
  EXPECT_EQ(GrowthCurve().RiseBytes(), 0u);
}

TEST(GrowthCurveTest, TheRiseLeavesOutWhatWasThereAtFirst) {
  EXPECT_EQ(Curve(1'000, [](uint64_t s) { return 5'000 + s; }).RiseBytes(), 995u);
}

}  // namespace
}  // namespace bulkhead::growth_curve_test
