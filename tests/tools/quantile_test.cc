#include <gtest/gtest.h>

#include "tools/common/stream_run.h"

namespace bulkhead::tools {
namespace {

TEST(QuantileTest, TakesTheNearestRank) {
  const std::vector<double> values = {5, 1, 4, 2, 3};
  EXPECT_EQ(Quantile(values, 0.5), 3);
  EXPECT_EQ(Quantile(values, 0.99), 5);
  EXPECT_EQ(Quantile(values, 0.2), 1);
  EXPECT_EQ(Quantile(values, 0), 1);
}

TEST(QuantileTest, OfNothingIsZero) { EXPECT_EQ(Quantile({}, 0.5), 0); }

}  // namespace
}  // namespace bulkhead::tools
