#include "server/supervisor/lease_table.h"

#include <gtest/gtest.h>

namespace bulkhead {
namespace {

v1::BatchHeader Header(uint64_t sequence, uint64_t samples = 40) {
  v1::BatchHeader header;
  header.set_sequence(sequence);
  header.set_first_position(sequence * 40);
  header.set_sample_count(samples);
  return header;
}

TEST(LeaseTableTest, CutsABatchIntoLeases) {
  LeaseTable table(7, 2, 16);
  table.BeginBatch(Header(0));
  const auto first = table.Assign(1);
  const auto second = table.Assign(1);
  const auto third = table.Assign(2);
  ASSERT_TRUE(third.has_value());
  EXPECT_EQ(first->first_sample(), 0);
  EXPECT_EQ(first->count(), 16);
  EXPECT_EQ(second->first_sample(), 16);
  EXPECT_EQ(third->first_sample(), 32);
  EXPECT_EQ(third->count(), 8);
  EXPECT_EQ(third->stream_id(), 7);
  EXPECT_FALSE(table.Assign(1).has_value());
  EXPECT_EQ(table.HeldBy(1), 2);
  EXPECT_EQ(table.HeldBy(2), 1);
}

TEST(LeaseTableTest, DeliversInOrderThoughFinishedOutOfOrder) {
  LeaseTable table(1, 3, 64);
  table.BeginBatch(Header(0));
  table.BeginBatch(Header(1));
  const auto first = table.Assign(1);
  const auto second = table.Assign(2);
  EXPECT_TRUE(table.Complete(second->lease_id(), 2, {}));
  EXPECT_FALSE(table.TakeHead().has_value());
  EXPECT_EQ(table.finished(), 1);
  EXPECT_TRUE(table.Complete(first->lease_id(), 1, {}));
  EXPECT_EQ(table.TakeHead()->header.sequence(), 0);
  EXPECT_EQ(table.TakeHead()->header.sequence(), 1);
  EXPECT_FALSE(table.TakeHead().has_value());
}

TEST(LeaseTableTest, ReassignsWhenWorkerDies) {
  LeaseTable table(1, 2, 16);
  table.BeginBatch(Header(0, 32));
  const auto done = table.Assign(1);
  const auto lost = table.Assign(1);
  EXPECT_TRUE(table.Complete(done->lease_id(), 1, {}));
  EXPECT_EQ(table.WorkerGone(1), 1);
  const auto again = table.Assign(2);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->lease_id(), lost->lease_id());
  EXPECT_TRUE(table.Complete(again->lease_id(), 2, {}));
  EXPECT_TRUE(table.TakeHead().has_value());
}

TEST(LeaseTableTest, NamesTheOldestLeaseOfAWorker) {
  LeaseTable table(1, 2, 16);
  table.BeginBatch(Header(0));
  EXPECT_EQ(table.OldestHeldBy(1), nullptr);
  table.Assign(2);
  const auto second = table.Assign(1);
  table.Assign(1);
  EXPECT_EQ(table.OldestHeldBy(1)->lease_id(), second->lease_id());
}

TEST(LeaseTableTest, IgnoresTheWordOfAWorkerThatDoesNotHoldTheLease) {
  LeaseTable table(1, 2, 64);
  table.BeginBatch(Header(0));
  const auto lease = table.Assign(1);
  EXPECT_FALSE(table.Complete(lease->lease_id(), 2, {}));
  EXPECT_FALSE(table.Complete(lease->lease_id() + 1, 1, {}));
  EXPECT_TRUE(table.Complete(lease->lease_id(), 1, {}));
  EXPECT_FALSE(table.Complete(lease->lease_id(), 1, {}));
}

TEST(LeaseTableTest, ReusesASlotOnlyAfterItIsFreed) {
  LeaseTable table(1, 2, 64);
  table.BeginBatch(Header(0));
  EXPECT_FALSE(table.has_free_slot());
  table.Complete(table.Assign(1)->lease_id(), 1, {});
  const auto batch = table.TakeHead();
  EXPECT_FALSE(table.has_free_slot());
  EXPECT_EQ(table.out_slots(), 1);
  table.FreeSlot(batch->slot);
  EXPECT_TRUE(table.has_free_slot());
  EXPECT_EQ(table.out_slots(), 0);
}

TEST(LeaseTableTest, ReportsTheFirstFailureOfABatchOnceAllItsLeasesAreDecided) {
  LeaseTable table(1, 2, 16);
  table.BeginBatch(Header(0, 48));
  const auto a = table.Assign(1);
  const auto b = table.Assign(1);
  const auto c = table.Assign(1);
  internal::v1::LeaseFailed late;
  late.set_position(40);
  internal::v1::LeaseFailed early;
  early.set_position(20);
  table.Fail(c->lease_id(), 1, late);
  table.Complete(a->lease_id(), 1, {});
  EXPECT_FALSE(table.TakeHead().has_value());
  table.Fail(b->lease_id(), 1, early);
  const auto batch = table.TakeHead();
  ASSERT_TRUE(batch->failure.has_value());
  EXPECT_EQ(batch->failure->position(), 20);
}

TEST(LeaseTableTest, CollectsSubstitutionsByPosition) {
  LeaseTable table(1, 2, 16);
  table.BeginBatch(Header(0, 32));
  const auto a = table.Assign(1);
  const auto b = table.Assign(2);
  internal::v1::Substitution late;
  late.set_position(20);
  internal::v1::Substitution early;
  early.set_position(3);
  table.Complete(b->lease_id(), 2, {late});
  table.Complete(a->lease_id(), 1, {early});
  const auto batch = table.TakeHead();
  ASSERT_EQ(batch->substitutions.size(), 2);
  EXPECT_EQ(batch->substitutions[0].position(), 3);
  EXPECT_EQ(batch->substitutions[1].position(), 20);
}

TEST(LeaseTableTest, KeepsOneSlotInReserve) {
  LeaseTable table(1, 3, 64);
  table.BeginBatch(Header(0));
  EXPECT_TRUE(table.has_free_slot());
  table.BeginBatch(Header(1));
  EXPECT_FALSE(table.has_free_slot());
  EXPECT_EQ(table.free_slots(), 1);
}

TEST(LeaseTableTest, MovesABatchAwayFromAWorkerThatCannotBeReaped) {
  LeaseTable table(1, 2, 16);
  table.BeginBatch(Header(0, 32));
  const auto stuck = table.Assign(1);
  const auto late = table.Assign(2);
  ASSERT_TRUE(table.WriteOff(1));
  EXPECT_FALSE(table.Complete(late->lease_id(), 2, {}));  // it wrote into the lost slot
  const auto first = table.Assign(2);
  const auto second = table.Assign(2);
  EXPECT_EQ(first->first_sample(), 0);
  EXPECT_NE(first->slot(), stuck->slot());
  EXPECT_EQ(second->slot(), first->slot());
  table.Complete(first->lease_id(), 2, {});
  table.Complete(second->lease_id(), 2, {});
  const auto batch = table.TakeHead();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->slot, first->slot());
  // The lost slot comes back only when the worker is gone.
  EXPECT_EQ(table.free_slots(), 0);
  table.WorkerGone(1);
  EXPECT_EQ(table.free_slots(), 1);
}

TEST(LeaseTableTest, KeepsALostSlotWhileAnyWorkerMayWriteThere) {
  LeaseTable table(1, 2, 16);
  table.BeginBatch(Header(0, 32));
  table.Assign(1);
  const auto late = table.Assign(2);
  ASSERT_TRUE(table.WriteOff(1));
  table.WorkerGone(1);
  EXPECT_EQ(table.free_slots(), 0);  // worker 2 is still at work there
  EXPECT_FALSE(table.Complete(late->lease_id(), 2, {}));
  EXPECT_EQ(table.free_slots(), 1);
}

TEST(LeaseTableTest, GoesOnWithoutAReserveInTheLastSlot) {
  LeaseTable table(1, 2, 64);
  table.BeginBatch(Header(0));
  table.Assign(1);
  ASSERT_TRUE(table.WriteOff(1));
  table.Complete(table.Assign(2)->lease_id(), 2, {});
  table.FreeSlot(table.TakeHead()->slot);
  EXPECT_TRUE(table.has_free_slot());
}

TEST(LeaseTableTest, SaysWhenNoSlotIsLeftToMoveTo) {
  LeaseTable table(1, 3, 64);
  table.BeginBatch(Header(0));
  table.BeginBatch(Header(1));
  table.Assign(1);
  table.Assign(1);
  EXPECT_FALSE(table.WriteOff(1));
}

}  // namespace
}  // namespace bulkhead
