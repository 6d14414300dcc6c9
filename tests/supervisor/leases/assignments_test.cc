#include "server/supervisor/leases/assignments.h"

#include <gtest/gtest.h>

#include <optional>

namespace bulkhead {
namespace {

TEST(AssignmentsTest, GivesTheLowestFirstAndDropsWhatIsNotNeeded) {
  Assignments assignments;
  v1::Assign assign;
  for (const uint64_t sequence : {9, 4, 6}) assign.add_sequences(sequence);
  EXPECT_TRUE(assignments.Add(assign));
  EXPECT_EQ(assignments.Take(), 4u);
  assign.clear_sequences();
  assign.set_needed_from(7);
  EXPECT_TRUE(assignments.Add(assign));
  EXPECT_EQ(assignments.Take(), 9u);
  EXPECT_EQ(assignments.Take(), std::nullopt);
}

TEST(AssignmentsTest, IsEmptyWhenEverythingWasSent) {
  Assignments assignments;
  v1::Assign assign;
  assign.add_sequences(3);
  EXPECT_TRUE(assignments.empty());
  EXPECT_TRUE(assignments.Add(assign));
  EXPECT_FALSE(assignments.empty());
  EXPECT_EQ(assignments.Take(), 3u);
  EXPECT_FALSE(assignments.empty());
  assignments.NoteSent(3);
  EXPECT_TRUE(assignments.empty());
}

TEST(AssignmentsTest, TakesNoMoreThanTheMost) {
  Assignments assignments;
  v1::Assign assign;
  for (uint64_t i = 0; i < Assignments::kMostWaiting; ++i) assign.add_sequences(i);
  EXPECT_TRUE(assignments.Add(assign));
  assign.add_sequences(Assignments::kMostWaiting);
  EXPECT_FALSE(assignments.Add(assign));
}

}  // namespace
}  // namespace bulkhead
