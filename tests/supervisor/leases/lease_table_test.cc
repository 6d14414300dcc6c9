#include "server/supervisor/leases/lease_table.h"

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
}

TEST(LeaseTableTest, GivesThePartOfALeaseThatThereIsRoomFor) {
  LeaseTable table(1, 2, 16);
  table.BeginBatch(Header(0, 32));
  const auto part = table.Assign(1, /*suspect=*/false, 3);
  const auto whole = table.Assign(2, /*suspect=*/false, 16);
  const auto rest = table.Assign(2);
  EXPECT_EQ(part->count(), 3);
  EXPECT_EQ(whole->count(), 16);
  EXPECT_EQ(rest->first_sample(), 3);
  EXPECT_EQ(rest->count(), 13);
  EXPECT_FALSE(table.has_planned());
  EXPECT_EQ(table.WorkerGone(1), 1);
  EXPECT_EQ(table.Assign(2)->lease_id(), part->lease_id());

  const auto substituted_at = [](uint64_t position) {
    internal::v1::Substitution substitution;
    substitution.set_position(position);
    return std::vector{substitution};
  };
  EXPECT_EQ(table.Complete(rest->lease_id(), 2, substituted_at(5)), 13u);
  EXPECT_EQ(table.Complete(whole->lease_id(), 2, substituted_at(20)), 16u);
  EXPECT_FALSE(table.TakeNext().has_value()) << "three samples are not done";
  EXPECT_EQ(table.Complete(part->lease_id(), 2, substituted_at(1)), 3u);
  const auto batch = table.TakeNext();
  ASSERT_TRUE(batch.has_value());
  std::vector<uint64_t> positions;
  for (const auto& substitution : batch->substitutions)
    positions.push_back(substitution.position());
  EXPECT_EQ(positions, (std::vector<uint64_t>{1, 5, 20}));
}

TEST(LeaseTableTest, DeliversInOrderThoughFinishedOutOfOrder) {
  LeaseTable table(1, 3, 64);
  table.BeginBatch(Header(0));
  table.BeginBatch(Header(1));
  const auto first = table.Assign(1);
  const auto second = table.Assign(2);
  EXPECT_TRUE(table.Complete(second->lease_id(), 2, {}));
  EXPECT_FALSE(table.TakeNext().has_value());
  EXPECT_EQ(table.finished(), 1);
  EXPECT_TRUE(table.Complete(first->lease_id(), 1, {}));
  EXPECT_EQ(table.TakeNext()->header.sequence(), 0);
  EXPECT_EQ(table.TakeNext()->header.sequence(), 1);
  EXPECT_FALSE(table.TakeNext().has_value());
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
  EXPECT_TRUE(table.TakeNext().has_value());
}

TEST(LeaseTableTest, CountsTheDeathsOfEachLeaseByItself) {
  LeaseTable table(1, 2, 16);
  table.BeginBatch(Header(0, 32));
  for (LeaseTable::WorkerId worker = 1; worker <= 2; ++worker) {
    const auto at_work = table.Assign(worker);
    const auto waiting = table.Assign(worker);
    EXPECT_FALSE(table.NoteDeath(at_work->lease_id(), worker + 1).has_value());
    const auto death = table.NoteDeath(at_work->lease_id(), worker);
    ASSERT_TRUE(death.has_value());
    EXPECT_EQ(death->deaths, worker);
    EXPECT_EQ(death->lease.lease_id(), at_work->lease_id());
    EXPECT_EQ(table.WorkerGone(worker), 2);
    if (worker == 2) {
      table.Assign(3);
      EXPECT_EQ(table.NoteDeath(table.Assign(3)->lease_id(), 3)->deaths, 1);  // `waiting`
    }
  }
}

TEST(LeaseTableTest, GivesASuspectOnlyToThoseWhoAskForOne) {
  LeaseTable table(1, 2, 16);
  table.BeginBatch(Header(0, 32));
  uint64_t culprit = 0;
  for (LeaseTable::WorkerId worker = 1; worker <= LeaseTable::kSuspectDeaths; ++worker) {
    EXPECT_FALSE(table.has_suspect());
    culprit = table.Assign(worker)->lease_id();
    table.NoteDeath(culprit, worker);
    table.WorkerGone(worker);
  }
  EXPECT_TRUE(table.has_suspect());
  const auto other = table.Assign(8);
  ASSERT_TRUE(other.has_value());
  EXPECT_NE(other->lease_id(), culprit);
  EXPECT_FALSE(table.Assign(8).has_value());
  EXPECT_FALSE(table.has_planned());
  EXPECT_EQ(table.Assign(9, /*suspect=*/true)->lease_id(), culprit);
  EXPECT_FALSE(table.has_suspect());
  EXPECT_TRUE(table.Complete(culprit, 9, {}));
  EXPECT_TRUE(table.Complete(other->lease_id(), 8, {}));
  EXPECT_TRUE(table.TakeNext().has_value());
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
  const auto batch = table.TakeNext();
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
  EXPECT_FALSE(table.TakeNext().has_value());
  table.Fail(b->lease_id(), 1, early);
  const auto batch = table.TakeNext();
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
  const auto batch = table.TakeNext();
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
  const auto batch = table.TakeNext();
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
  table.FreeSlot(table.TakeNext()->slot);
  EXPECT_TRUE(table.has_free_slot());
}

// One worker, leases in two batches, one slot in reserve: the head moves now, the other batch when
// a slot comes back.
TEST(LeaseTableTest, MovesTheHeadFirstAndLaterBatchesAsSlotsBecomeFree) {
  LeaseTable table(1, 3, 64);
  table.BeginBatch(Header(0));
  table.BeginBatch(Header(1));
  const auto head = table.Assign(1);
  const auto later = table.Assign(1);
  ASSERT_TRUE(table.WriteOff(1));
  const auto again = table.Assign(2);
  EXPECT_EQ(again->first_position(), 0);
  EXPECT_NE(again->slot(), head->slot());
  EXPECT_FALSE(table.Assign(2).has_value());  // the other one has no slot yet
  table.Complete(again->lease_id(), 2, {});
  table.FreeSlot(table.TakeNext()->slot);
  const auto moved = table.Assign(2);
  ASSERT_TRUE(moved.has_value());
  EXPECT_EQ(moved->first_position(), 40);
  EXPECT_NE(moved->slot(), head->slot());
  EXPECT_NE(moved->slot(), later->slot());
  table.Complete(moved->lease_id(), 2, {});
  table.FreeSlot(table.TakeNext()->slot);
  table.WorkerGone(1);
  EXPECT_EQ(table.free_slots(), 3);
}

TEST(LeaseTableTest, KeepsTheReservedSlotForTheHead) {
  LeaseTable table(1, 3, 64);
  table.BeginBatch(Header(0));
  table.BeginBatch(Header(1));
  table.Assign(1);
  table.Assign(2);
  ASSERT_TRUE(table.WriteOff(2));
  EXPECT_EQ(table.free_slots(), 1);
  EXPECT_TRUE(table.WriteOff(1));
  EXPECT_EQ(table.Assign(3)->first_position(), 0);
}

TEST(LeaseTableTest, AWorkerThatIsReapedLateLeavesItsBatchWhereItIs) {
  LeaseTable table(1, 3, 64);
  table.BeginBatch(Header(0));
  table.BeginBatch(Header(1));
  table.Assign(1);
  const auto stuck = table.Assign(2);
  ASSERT_TRUE(table.WriteOff(2));
  EXPECT_EQ(table.WorkerGone(2), 1);
  EXPECT_EQ(table.Assign(3)->slot(), stuck->slot());
}

TEST(LeaseTableTest, SaysWhenTheHeadHasNoSlotToMoveTo) {
  LeaseTable table(1, 2, 64);
  table.BeginBatch(Header(0));
  table.Assign(1);
  EXPECT_TRUE(table.WriteOff(1));
  table.Assign(2);
  EXPECT_FALSE(table.WriteOff(2));
}

TEST(LeaseTableTest, WaitsForASlotThatTheTrainerHas) {
  LeaseTable table(1, 3, 64);
  table.BeginBatch(Header(0));
  table.BeginBatch(Header(1));
  table.Complete(table.Assign(1)->lease_id(), 1, {});
  const auto out = table.TakeNext();
  table.Assign(1);
  EXPECT_TRUE(table.WriteOff(1));  // into the reserved slot
  table.Assign(2);
  EXPECT_TRUE(table.WriteOff(2));
  EXPECT_FALSE(table.has_planned());
  table.FreeSlot(out->slot);
  EXPECT_EQ(table.Assign(3)->slot(), out->slot);
}

// Without order.

v1::BatchHeader EpochHeader(uint64_t sequence, uint64_t epoch) {
  v1::BatchHeader header = Header(sequence, 1);
  header.set_epoch(epoch);
  return header;
}

TEST(UnorderedLeaseTableTest, TakesWhatIsFinishedFirst) {
  LeaseTable table(1, 4, 64, /*ordered=*/false);
  for (int i = 0; i < 3; ++i) table.BeginBatch(EpochHeader(i, 0));
  const auto a = table.Assign(1);
  const auto b = table.Assign(1);
  const auto c = table.Assign(1);
  EXPECT_FALSE(table.TakeNext().has_value());
  table.Complete(c->lease_id(), 1, {});
  auto taken = table.TakeNext();
  EXPECT_EQ(taken->header.sequence(), 2);
  EXPECT_EQ(taken->older, 2);
  EXPECT_FALSE(table.TakeNext().has_value());
  table.Complete(a->lease_id(), 1, {});
  taken = table.TakeNext();
  EXPECT_EQ(taken->header.sequence(), 0);
  EXPECT_EQ(taken->older, 0);
  EXPECT_EQ(table.head_sequence(), 1);
  table.Complete(b->lease_id(), 1, {});
  EXPECT_EQ(table.TakeNext()->header.sequence(), 1);
  EXPECT_FALSE(table.head_sequence().has_value());
}

TEST(UnorderedLeaseTableTest, FinishesAnEpochBeforeTheNext) {
  LeaseTable table(1, 4, 64, /*ordered=*/false);
  for (int i = 0; i < 3; ++i) table.BeginBatch(EpochHeader(i, i == 2 ? 1 : 0));
  const auto a = table.Assign(1);
  const auto b = table.Assign(1);
  table.Complete(table.Assign(1)->lease_id(), 1, {});
  EXPECT_FALSE(table.TakeNext().has_value());
  table.Complete(b->lease_id(), 1, {});
  EXPECT_EQ(table.TakeNext()->header.sequence(), 1);
  EXPECT_FALSE(table.TakeNext().has_value());
  table.Complete(a->lease_id(), 1, {});
  EXPECT_EQ(table.TakeNext()->header.sequence(), 0);
  EXPECT_EQ(table.TakeNext()->header.sequence(), 2);
}

TEST(UnorderedLeaseTableTest, RunsAtMost63BatchesAhead) {
  LeaseTable table(1, 80, 64, /*ordered=*/false);
  table.BeginBatch(EpochHeader(0, 0));
  table.Assign(1);
  for (int i = 1; i < 70; ++i) {
    table.BeginBatch(EpochHeader(i, 0));
    table.Complete(table.Assign(2)->lease_id(), 2, {});
  }
  uint64_t last = 0;
  while (const auto taken = table.TakeNext()) last = taken->header.sequence();
  EXPECT_EQ(last, 63);
}

TEST(UnorderedLeaseTableTest, DeliversWhatIsGoodBeforeAFailedBatch) {
  LeaseTable table(1, 4, 64, /*ordered=*/false);
  for (int i = 0; i < 3; ++i) table.BeginBatch(EpochHeader(i, 0));
  const auto a = table.Assign(1);
  table.Fail(table.Assign(1)->lease_id(), 1, {});
  table.Complete(table.Assign(1)->lease_id(), 1, {});
  EXPECT_EQ(table.TakeNext()->header.sequence(), 2);
  EXPECT_FALSE(table.TakeNext().has_value());
  table.Complete(a->lease_id(), 1, {});
  EXPECT_EQ(table.TakeNext()->header.sequence(), 0);
  EXPECT_TRUE(table.TakeNext()->failure.has_value());
}

TEST(LeaseTableTest, RedoesWhatWasDoneByOtherRules) {
  LeaseTable table(1, 3, 16);
  table.BeginBatch(Header(0, 32));
  table.BeginBatch(Header(1, 16));
  const auto ready = table.Assign(1);
  const auto at_work = table.Assign(2);
  const auto failed = table.Assign(3);
  internal::v1::Substitution substitution;
  EXPECT_TRUE(table.Complete(ready->lease_id(), 1, {substitution}));
  EXPECT_TRUE(table.Fail(failed->lease_id(), 3, {}));
  EXPECT_EQ(table.finished(), 1);
  table.RedoAll();
  EXPECT_EQ(table.finished(), 0);

  // What is ready or failed is planned at once, what is at work when it is reported.
  const auto ready_again = table.Assign(4);
  ASSERT_TRUE(ready_again.has_value());
  EXPECT_EQ(ready_again->first_sample(), 0);
  const auto failed_again = table.Assign(4);
  ASSERT_TRUE(failed_again.has_value());
  EXPECT_EQ(failed_again->first_position(), 40);
  EXPECT_FALSE(table.Assign(4).has_value());
  EXPECT_EQ(table.Complete(at_work->lease_id(), 2, {substitution}), 16u);
  EXPECT_TRUE(table.Complete(ready_again->lease_id(), 4, {}));
  EXPECT_TRUE(table.Complete(failed_again->lease_id(), 4, {}));
  EXPECT_FALSE(table.TakeNext().has_value());
  const auto at_work_again = table.Assign(2);
  ASSERT_TRUE(at_work_again.has_value());
  EXPECT_EQ(at_work_again->first_sample(), 16);
  EXPECT_TRUE(table.Complete(at_work_again->lease_id(), 2, {}));
  const auto batch = table.TakeNext();
  ASSERT_TRUE(batch.has_value());
  EXPECT_FALSE(batch->failure.has_value());
  EXPECT_TRUE(batch->substitutions.empty());
  EXPECT_FALSE(table.TakeNext()->failure.has_value());
}

TEST(LeaseTableTest, RedoesAFailureOfBeforeAndLeasesOfDeadWorkers) {
  LeaseTable table(1, 2, 16);
  table.BeginBatch(Header(0, 32));
  const auto fails = table.Assign(1);
  table.Assign(2);
  table.RedoAll();
  EXPECT_TRUE(table.Fail(fails->lease_id(), 1, {}));
  EXPECT_EQ(table.WorkerGone(2), 1);
  for (int i = 0; i < 2; ++i) {
    const auto again = table.Assign(3);
    ASSERT_TRUE(again.has_value());
    EXPECT_TRUE(table.Complete(again->lease_id(), 3, {}));
  }
  const auto batch = table.TakeNext();
  ASSERT_TRUE(batch.has_value());
  EXPECT_FALSE(batch->failure.has_value());
}

TEST(LeaseTableTest, RedoingKeepsTheSuspectsThatWereNotTriedAlone) {
  LeaseTable table(1, 2, 16);
  table.BeginBatch(Header(0, 32));
  const auto first = table.Assign(1);
  const auto second = table.Assign(2);
  table.NoteDeath(first->lease_id(), 1, /*alone=*/false, /*by_itself=*/true);
  table.NoteDeath(second->lease_id(), 2, /*alone=*/false, /*by_itself=*/true);
  table.WorkerGone(1);
  table.WorkerGone(2);
  const auto tried = table.Assign(3, /*suspect=*/true);
  EXPECT_EQ(table.NoteDeath(tried->lease_id(), 3, /*alone=*/true, true)->convicting, 1u);
  table.WorkerGone(3);
  table.RedoAll();
  ASSERT_TRUE(table.has_planned());
  ASSERT_TRUE(table.has_suspect());
  const auto cleared = table.Assign(4);
  EXPECT_EQ(cleared->first_sample(), tried->first_sample());
  EXPECT_EQ(table.NoteDeath(cleared->lease_id(), 4, true)->convicting, 1u);
  EXPECT_FALSE(table.has_planned());
  const auto suspect = table.Assign(5, /*suspect=*/true);
  ASSERT_TRUE(suspect.has_value());
  EXPECT_EQ(table.NoteDeath(suspect->lease_id(), 5)->deaths, 1u);
}

}  // namespace
}  // namespace bulkhead
