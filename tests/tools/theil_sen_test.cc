#include "tools/measure/theil_sen.h"

#include <gtest/gtest.h>

#include <random>

namespace bulkhead::tools {
namespace {

TEST(TheilSenTest, FindsALineThroughItsPoints) {
  const SlopeEstimate estimate = TheilSen({1, 3, 5, 7, 9, 11});
  EXPECT_DOUBLE_EQ(estimate.low, 2);
  EXPECT_DOUBLE_EQ(estimate.slope, 2);
  EXPECT_DOUBLE_EQ(estimate.high, 2);
}

TEST(TheilSenTest, OutliersDoNotMoveIt) {
  std::vector<double> values;
  for (int i = 0; i < 100; ++i) values.push_back(i % 10 == 0 ? 1e6 : 3.0 * i);
  EXPECT_NEAR(TheilSen(values).slope, 3, 0.5);
}

TEST(TheilSenTest, TheBoundsHoldTheSlopeOfNoiseAboutNothing) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 100);
  std::vector<double> values;
  for (int i = 0; i < 500; ++i) values.push_back(noise(random));
  const SlopeEstimate estimate = TheilSen(values);
  EXPECT_LT(estimate.low, 0);
  EXPECT_GT(estimate.high, 0);
  EXPECT_LT(estimate.high - estimate.low, 1);
}

TEST(TheilSenTest, ALeakOfAByteABatchShowsInTheLowerBound) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 100);
  std::vector<double> values;
  for (int i = 0; i < 3000; ++i) values.push_back(i + noise(random));
  const SlopeEstimate estimate = TheilSen(values);
  EXPECT_GT(estimate.low, 0.9);
  EXPECT_LT(estimate.high, 1.1);
}

TEST(TheilSenTest, TooFewValuesSayNothing) { EXPECT_EQ(TheilSen({1, 2}).slope, 0); }

}  // namespace
}  // namespace bulkhead::tools
