#include "server/supervisor/pool/pool_tuning.h"

#include <gmock/gmock.h>

#include "tests/supervisor/pool/pool_world.h"

namespace bulkhead {
namespace {

constexpr uint64_t kQuota = uint64_t{64} << 20;

class PoolTuningTest : public PoolWorld {
 protected:
  // A pool that began with two workers and has four.
  PoolTuningTest() {
    config_.workers = 2;
    config_.quota_bytes = kQuota;
    config_.tuning = TuningLimits{2, 8, 2};
    context_.loop = loop_;
    context_.budget = budget_.get();
    context_.memory = std::make_shared<MemoryClaim>(budget_->AdmitWorker(2 * kQuota).value());
    tuning_.emplace(part_, dispatcher_, [](Slot&) {});
    context_.memory->Merge(budget_->AdmitWorker(2 * kQuota).value());
    Man(4);
  }

  bool IsStopping(uint32_t slot) {
    return WorkerAt(slot).process->phase() == WorkerPhase::kStopping;
  }
  void End(uint32_t slot) {
    crew_.TakeOut(WorkerAt(slot));
    crew_.RemoveEmptyPlaces();
  }
  uint64_t Promised() const { return budget_->Snapshot().quota_bytes(); }

  const std::shared_ptr<MemoryBudget> budget_ = MemoryBudget::Create({}).value();
  Dispatcher dispatcher_{part_};
  std::optional<PoolTuning> tuning_;
};

TEST_F(PoolTuningTest, OthersGetTheWorkersBeyondTheFirstOnes) {
  EXPECT_EQ(tuning_->spare_bytes(), 2 * kQuota);
  EXPECT_TRUE(tuning_->GiveUpOne());
  EXPECT_TRUE(IsStopping(3));
  EXPECT_EQ(budget_->returning_bytes(), kQuota);
  EXPECT_EQ(Promised(), 4 * kQuota) << "until it is reaped";
  End(3);
  EXPECT_EQ(Promised(), 3 * kQuota);
  EXPECT_TRUE(tuning_->GiveUpOne());
  EXPECT_FALSE(tuning_->GiveUpOne()) << "the pool began with these";
  EXPECT_EQ(tuning_->spare_bytes(), 0u);
  EXPECT_FALSE(IsStopping(1));
}

TEST_F(PoolTuningTest, AWorkerFinishesItsLeasesButNotLongOnes) {
  const int64_t now_ns = MonotonicNanos();
  WorkerAt(3).held.push_back({});
  WorkerAt(2).held.push_back({});
  EXPECT_TRUE(tuning_->GiveUpOne());
  EXPECT_TRUE(tuning_->GiveUpOne());
  tuning_->StopIfDrained(now_ns);
  EXPECT_FALSE(IsStopping(3));
  WorkerAt(3).held.clear();
  tuning_->StopIfDrained(now_ns);
  EXPECT_TRUE(IsStopping(3));
  EXPECT_FALSE(IsStopping(2));
  tuning_->StopIfDrained(now_ns + 5 * kSecond);
  EXPECT_TRUE(IsStopping(2));
}

TEST_F(PoolTuningTest, APlaceWithoutAWorkerGoesAtOnce) {
  crew_.TakeOut(WorkerAt(3));
  EXPECT_TRUE(tuning_->GiveUpOne());
  EXPECT_EQ(crew_.slots().size(), 3u);
  EXPECT_EQ(Promised(), 3 * kQuota);
}

TEST_F(PoolTuningTest, AWorkerThatIsBeingReplacedStays) {
  crew_.slots()[3]->successor = MakeWorker(3);
  EXPECT_TRUE(tuning_->GiveUpOne());
  EXPECT_FALSE(IsStopping(3));
  EXPECT_TRUE(IsStopping(2));
}

TEST_F(PoolTuningTest, TellsWhatItDoesAndWhy) {
  tuning_->GiveUpOne();
  v1::GetStatusResponse status;
  tuning_->AppendStatus(status);
  ASSERT_EQ(status.tunings_size(), 1);
  const v1::WorkerTuning& tuning = status.tunings(0);
  EXPECT_EQ(tuning.workers(), 3u);
  EXPECT_EQ(tuning.first_workers(), 2u);
  EXPECT_EQ(tuning.most_workers(), 8u);
  EXPECT_EQ(tuning.state(), v1::TUNING_STATE_GIVEN_UP);
  EXPECT_EQ(tuning.text(), "another stream needs the memory");
  config_.missing_workers = 6;
  status.Clear();
  tuning_->AppendStatus(status);
  EXPECT_EQ(status.tunings(0).text(),
            "another stream needs the memory; at first the memory budget held 2 of 8");
}

TEST_F(PoolTuningTest, AFixedNumberStays) {
  config_.tuning.reset();
  PoolTuning fixed(part_, dispatcher_, [](Slot&) {});
  fixed.Look(MonotonicNanos());
  EXPECT_EQ(fixed.spare_bytes(), 0u);
  EXPECT_FALSE(fixed.GiveUpOne());
  v1::GetStatusResponse status;
  fixed.AppendStatus(status);
  EXPECT_EQ(status.tunings_size(), 0);
}

}  // namespace
}  // namespace bulkhead
