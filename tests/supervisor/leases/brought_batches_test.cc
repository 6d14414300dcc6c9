#include "server/supervisor/leases/brought_batches.h"

#include <gtest/gtest.h>

#include <vector>

namespace bulkhead::brought_batches_test {
namespace {

v1::BatchHeader Header(uint64_t sequence) {
  v1::BatchHeader header;
  header.set_sequence(sequence);
  header.set_first_position(sequence * 40);
  header.set_sample_count(40);
  return header;
}

// Promises the batches with even numbers.
class EvenBringer final : public BatchBringer {
 public:
  bool Bring(const BroughtBatch& batch) override {
    digests.push_back(batch.quarantine_digest);
    if (batch.header.sequence() % 2 != 0) return false;
    promised.push_back(batch.bringer);
    slots.push_back(batch.slot);
    return true;
  }

  std::vector<LeaseTable::WorkerId> promised;
  std::vector<uint32_t> slots;
  std::vector<std::string> digests;
};

class BroughtBatchesTest : public testing::Test {
 protected:
  BroughtBatchesTest() { brought_.SetBringer(&bringer_); }

  int Planned() {
    int planned = 0;
    while (leases_.Assign(1).has_value()) ++planned;
    return planned;
  }

  void ExpectCounts(uint64_t shared, uint64_t alone) {
    EXPECT_EQ(brought_.shared(), shared);
    EXPECT_EQ(brought_.alone(), alone);
  }

  LeaseTable leases_{7, 5, 16};
  int changes_ = 0;
  EvenBringer bringer_;
  BroughtBatches brought_{7, leases_, [this] { ++changes_; }};
};

TEST_F(BroughtBatchesTest, ABroughtBatchNeedsNoWorker) {
  brought_.Begin(Header(0), "digest");
  EXPECT_FALSE(leases_.has_planned());
  EXPECT_FALSE(leases_.TakeNext().has_value());
  internal::v1::Substitution substitution;
  substitution.set_position(3);
  brought_.Complete(bringer_.promised.at(0), {substitution});
  EXPECT_EQ(changes_, 1);
  const auto batch = leases_.TakeNext();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->slot, bringer_.slots[0]);
  ASSERT_EQ(batch->substitutions.size(), 1u);
  EXPECT_EQ(batch->substitutions[0].position(), 3u);
  EXPECT_EQ(bringer_.digests, std::vector<std::string>{"digest"});
  ExpectCounts(1, 0);
}

TEST_F(BroughtBatchesTest, ABatchThatIsNotPromisedIsMade) {
  brought_.Begin(Header(1), "");
  EXPECT_EQ(Planned(), 3);  // 16, 16 and 8 samples
  ExpectCounts(0, 1);
}

TEST_F(BroughtBatchesTest, ABatchThatIsGivenBackIsMade) {
  brought_.Begin(Header(0), "");
  brought_.Begin(Header(2), "");
  brought_.GiveBack(bringer_.promised.at(0));
  EXPECT_EQ(changes_, 1);
  EXPECT_EQ(Planned(), 3);                      // of that batch alone
  brought_.Complete(bringer_.promised[0], {});  // too late
  brought_.GiveBack(bringer_.promised[0]);
  EXPECT_EQ(changes_, 1);
  EXPECT_FALSE(leases_.TakeNext().has_value());
  ExpectCounts(0, 1);  // the other is still to come
}

TEST_F(BroughtBatchesTest, WhatWasBroughtForAnEarlierQuarantineIsMadeAgain) {
  brought_.Begin(Header(0), "");
  leases_.RedoAll();
  EXPECT_EQ(Planned(), 0);  // somebody may still be writing to the slot
  brought_.Complete(bringer_.promised.at(0), {});
  EXPECT_FALSE(leases_.TakeNext().has_value());
  EXPECT_EQ(Planned(), 3);
  ExpectCounts(0, 1);
}

TEST_F(BroughtBatchesTest, TheStreamWaitsForItsOldestBatch) {
  EXPECT_FALSE(brought_.is_awaited());
  brought_.Begin(Header(1), "");
  brought_.Begin(Header(2), "");
  EXPECT_FALSE(brought_.is_awaited()) << "it makes the one before";
  while (const auto lease = leases_.Assign(1)) leases_.Complete(lease->lease_id(), 1, {});
  leases_.TakeNext();
  EXPECT_TRUE(brought_.is_awaited());
  brought_.GiveBack(bringer_.promised.at(0));
  EXPECT_FALSE(brought_.is_awaited());
}

TEST_F(BroughtBatchesTest, WithoutABringerAllIsMade) {
  brought_.SetBringer(nullptr);
  brought_.Begin(Header(0), "");
  EXPECT_EQ(Planned(), 3);
}

}  // namespace
}  // namespace bulkhead::brought_batches_test
