#include "client/cpp/internal/batch/held_batches.h"

#include <gtest/gtest.h>

namespace bulkhead::client_internal {
namespace {

TEST(HeldBatchesTest, GivesBackInOrder) {
  HeldBatches held;
  for (const uint64_t sequence : {0, 1, 2}) held.Arrived(sequence, 10);
  EXPECT_EQ(held.Gone(1), std::nullopt);
  EXPECT_EQ(held.count(), 3u);
  EXPECT_EQ(held.oldest(), 0u);
  EXPECT_EQ(held.Gone(0), 1u);
  EXPECT_EQ(held.count(), 1u);
  EXPECT_EQ(held.bytes(), 10u);
  EXPECT_EQ(held.Gone(2), 2u);
  EXPECT_EQ(held.bytes(), 0u);
}

TEST(HeldBatchesTest, TheOrderIsThatOfArrival) {
  HeldBatches held;
  for (const uint64_t sequence : {6, 9, 5, 7}) held.Arrived(sequence, 1);
  EXPECT_EQ(held.Gone(5), std::nullopt);
  EXPECT_EQ(held.Gone(6), 6u);
  EXPECT_EQ(held.Gone(9), 5u);
  EXPECT_EQ(held.oldest(), 7u);
  EXPECT_EQ(held.Gone(7), 7u);
}

TEST(HeldBatchesTest, SlotsGoBackAlone) {
  HeldBatches held;
  for (const uint64_t sequence : {0, 1, 2}) held.Arrived(sequence, 10);
  held.GoneAlone(1);
  held.GoneAlone(1);
  EXPECT_EQ(held.count(), 2u);
  EXPECT_EQ(held.bytes(), 20u);
}

}  // namespace
}  // namespace bulkhead::client_internal
