#include "client/cpp/internal/stream/incarnation.h"

#include <gtest/gtest.h>

namespace bulkhead::client_internal {
namespace {

TEST(IncarnationsTest, TheyGrowWhateverBecomesOfTheClock) {
  Incarnations incarnations;
  const auto wall = [&](uint64_t now) { return incarnations.Next({now, "", 0}).wall_ns; };
  EXPECT_EQ(wall(1000), 1000u);
  EXPECT_EQ(wall(1000), 1001u);
  EXPECT_EQ(wall(5), 1002u);
  EXPECT_EQ(wall(0), 1003u);
  EXPECT_EQ(wall(2000), 2000u);
}

TEST(IncarnationsTest, SinceTheBootTheyGrowLikewise) {
  Incarnations incarnations;
  const auto since = [&](uint64_t now) {
    return incarnations.Next({1, "boot", now}).since_boot_ns;
  };
  EXPECT_EQ(since(7), 7u);
  EXPECT_EQ(since(7), 8u);
  EXPECT_EQ(since(20), 20u);
  EXPECT_EQ(incarnations.Next({1, "", 30}).since_boot_ns, 0u) << "of an unknown boot";
}

TEST(IncarnationTest, OneMachineHasOneBoot) {
  const Incarnation before = Incarnation::Now();
  const Incarnation after = Incarnation::Now();
  EXPECT_EQ(before.machine_boot.size(), 16u);
  EXPECT_EQ(before.machine_boot, after.machine_boot);
  EXPECT_GE(after.since_boot_ns, before.since_boot_ns);
  EXPECT_GT(before.since_boot_ns, 0u);
}

}  // namespace
}  // namespace bulkhead::client_internal
