#include "client/cpp/internal/incarnation.h"

#include <gtest/gtest.h>

namespace bulkhead::client_internal {
namespace {

TEST(IncarnationsTest, TheyGrowWhateverBecomesOfTheClock) {
  Incarnations incarnations;
  EXPECT_EQ(incarnations.Next(1000), 1000u);
  EXPECT_EQ(incarnations.Next(1000), 1001u);
  EXPECT_EQ(incarnations.Next(5), 1002u);
  EXPECT_EQ(incarnations.Next(-5), 1003u);
  EXPECT_EQ(incarnations.Next(2000), 2000u);
}

}  // namespace
}  // namespace bulkhead::client_internal
