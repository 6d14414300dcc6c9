// What a pool's two watches make of what they see.
#include <gmock/gmock.h>

#include "server/supervisor/pool/memory_watch.h"
#include "server/supervisor/pool/progress_watch.h"
#include "tests/supervisor/pool/pool_world.h"

namespace bulkhead {
namespace {

using ::testing::HasSubstr;

class ProgressWatchTest : public PoolWorld {
 protected:
  ProgressWatchTest() {
    context_.timeouts.hang = absl::Seconds(30);
    context_.timeouts.reap = absl::Seconds(10);
    context_.timeouts.start = absl::Seconds(60);
    context_.timeouts.start_with_imports = absl::Seconds(300);
    Man(1);
  }

  // What becomes of the worker at that second; empty: nothing.
  std::string KilledAt(int64_t second) {
    EXPECT_TRUE(watch_.Look(WorkerAt(0), second * kSecond));
    return HandleOf(WorkerAt(0)).reason;
  }

  ProgressWatch watch_{part_};
};

TEST_F(ProgressWatchTest, AWorkerWithoutWorkDoesNotHang) {
  WorkerAt(0).last_progress_ns = kSecond;
  EXPECT_EQ(KilledAt(1000), "");
}

TEST_F(ProgressWatchTest, AWorkerThatFinishesNothingIsKilled) {
  WorkerAt(0).last_progress_ns = kSecond;
  WorkerAt(0).held.push_back({});
  EXPECT_EQ(KilledAt(31), "");
  EXPECT_EQ(KilledAt(32), "no progress for 30s");
  EXPECT_EQ(HandleOf(WorkerAt(0)).cause, v1::EXIT_CAUSE_HUNG);
}

TEST_F(ProgressWatchTest, OneThreadThatHangsIsEnough) {
  WorkerAt(0).held.push_back({});
  WorkerAt(0).flight.recorder().BeginSample(0, 1, 1, 0, 0);
  const int64_t now = MonotonicNanos();
  WorkerAt(0).last_progress_ns = now;
  EXPECT_EQ(KilledAt(now / kSecond + 20), "");
  WorkerAt(0).last_progress_ns = now + 31 * kSecond;  // the others go on
  EXPECT_EQ(KilledAt(now / kSecond + 32), "no progress for 30s");
  EXPECT_NE(WorkerAt(0).hung_since_ns.at(0), 0);
}

TEST_F(ProgressWatchTest, WhoDoesNotEndAfterAKillIsToBeWrittenOff) {
  HandleOf(WorkerAt(0)).Kill(v1::EXIT_CAUSE_KILLED, "from outside");
  EXPECT_TRUE(watch_.Look(WorkerAt(0), 5 * kSecond));
  EXPECT_TRUE(watch_.Look(WorkerAt(0), 14 * kSecond));
  EXPECT_FALSE(watch_.Look(WorkerAt(0), 15 * kSecond));
  WorkerAt(0).written_off = true;
  EXPECT_TRUE(watch_.Look(WorkerAt(0), 16 * kSecond)) << "once";
}

TEST_F(ProgressWatchTest, AStartMayTakeLongerWhereUserCodeIsImported) {
  WorkerAt(0).bound = false;
  config_.user_code = "augment.py";
  EXPECT_EQ(KilledAt(300), "");
  config_.user_code.clear();
  EXPECT_EQ(KilledAt(61), "not ready after 1m");
}

TEST_F(ProgressWatchTest, ASuccessorThatIsWarmMayStandByForLong) {
  crew_.slots()[0]->successor = MakeWorker(0);
  PoolWorker& successor = *crew_.slots()[0]->successor;
  successor.warm_ns = successor.last_progress_ns = kSecond;
  EXPECT_TRUE(watch_.Look(successor, 1000 * kSecond));
  EXPECT_EQ(HandleOf(successor).reason, "");
  successor.warm_ns = 0;
  watch_.Look(successor, 1000 * kSecond);
  EXPECT_EQ(HandleOf(successor).reason, "not ready after 1m");
}

TEST_F(ProgressWatchTest, AStreamWithoutABatchIsToldWhatItsWorkersAreAt) {
  const auto observer = AddStream();
  watch_.TellActivity(MonotonicNanos());
  EXPECT_EQ(observer->activity, "");
  const int64_t later = MonotonicNanos() + 6 * kSecond;
  watch_.TellActivity(later);
  EXPECT_EQ(observer->activity, "the workers serve other streams");
  WorkerAt(0).bound = false;
  WorkerAt(0).spawned_ns = later - kSecond;
  watch_.TellActivity(later + kSecond / 2);
  EXPECT_EQ(observer->activity, "the workers serve other streams") << "at most every second";
  watch_.TellActivity(later + kSecond);
  EXPECT_EQ(observer->activity, "worker 0 has been starting for 2s");
  crew_.slots()[0]->worker = nullptr;
  crew_.slots()[0]->last_end = "killed by signal 9";
  watch_.TellActivity(later + 2 * kSecond);
  EXPECT_EQ(observer->activity, "worker 0 waits for a restart; the last end: killed by signal 9");
}

// Promises every batch.
class PromisingBringer final : public BatchBringer {
 public:
  bool Bring(const BroughtBatch& batch) override {
    promised.push_back(batch.bringer);
    return true;
  }
  std::vector<LeaseTable::WorkerId> promised;
};

TEST_F(ProgressWatchTest, AStreamThatWaitsForASharedBatchIsToldByWhoMakesIt) {
  PromisingBringer bringer;
  const auto observer = AddStream(v1::ERROR_ACTION_SUBSTITUTE, /*for_others=*/false, &bringer);
  const int64_t later = MonotonicNanos() + 6 * kSecond;
  watch_.TellActivity(later);
  EXPECT_EQ(observer->activity, "");
  streams_.all().back()->brought().GiveBack(bringer.promised.at(0));
  watch_.TellActivity(later + 2 * kSecond);
  EXPECT_EQ(observer->activity, "the workers serve other streams");
}

class MemoryWatchTest : public PoolWorld {
 protected:
  MemoryWatchTest() {
    config_.quota_bytes = 1000;
    Man(1);
  }

  void Note(uint64_t anonymous_bytes, uint64_t threads = 2, uint64_t shared_bytes = 0) {
    ProcessMemory memory;
    memory.anonymous_bytes = anonymous_bytes;
    memory.shared_bytes = shared_bytes;
    memory.threads = threads;
    watch_.Note(WorkerAt(0), *crew_.slots()[0], memory, ++now_ns_);
  }

  MemoryWatch watch_{part_};
  int64_t now_ns_ = 0;
};

TEST_F(MemoryWatchTest, MoreThanTheQuotaIsTheEnd) {
  Note(1000);
  EXPECT_EQ(HandleOf(WorkerAt(0)).reason, "");
  Note(1001);
  EXPECT_EQ(HandleOf(WorkerAt(0)).reason, "it held 1001B, more than its quota of 1000B");
  EXPECT_EQ(HandleOf(WorkerAt(0)).cause, v1::EXIT_CAUSE_WATCHDOG);
  EXPECT_EQ(WorkerAt(0).memory.peak_bytes(), 1001u);
}

TEST_F(MemoryWatchTest, SharedMemoryCountsButForArenasAndIndexes) {
  config_.mapped_bytes = 300;
  WorkerAt(0).claims->mapped[1].bytes = 400;
  Note(900, 2, 800);
  EXPECT_EQ(HandleOf(WorkerAt(0)).reason, "");
  Note(900, 2, 801);
  EXPECT_THAT(HandleOf(WorkerAt(0)).reason, HasSubstr("it held"));
}

TEST_F(MemoryWatchTest, MoreThreadsThanAllowedAreTheEnd) {
  context_.sandbox.set_extra_threads(3);
  Note(1, 5);
  EXPECT_EQ(HandleOf(WorkerAt(0)).reason, "");
  Note(1, 6);
  EXPECT_EQ(HandleOf(WorkerAt(0)).reason,
            "it has 4 threads beside its own, more than --worker-extra-threads 3");
}

TEST_F(MemoryWatchTest, ALookCountsTheSamplesThatWereDone) {
  PoolWorker& worker = WorkerAt(0);
  worker.samples_given = 48;
  worker.held.push_back({1, 2, /*samples=*/16, false});
  EXPECT_TRUE(worker.is_unseen());
  Note(1);
  EXPECT_EQ(worker.samples_seen, 32u);
  EXPECT_FALSE(worker.is_unseen());
}

TEST_F(MemoryWatchTest, AWorkerIsYoungUntilItsGrowthIsKnown) {
  MemoryGrowth& growth = WorkerAt(0).memory.growth();
  for (uint64_t samples = 0; samples < 112; samples += 16) {
    EXPECT_TRUE(watch_.IsYoung(WorkerAt(0), kSecond)) << samples;
    growth.Note(samples, 100, static_cast<int64_t>(samples) * kSecond);
  }
  EXPECT_TRUE(watch_.IsYoung(WorkerAt(0), kSecond));
  growth.Note(112, 100, 112 * kSecond);
  EXPECT_FALSE(watch_.IsYoung(WorkerAt(0), kSecond));
}

TEST_F(MemoryWatchTest, AYoungWorkerIsLookedAtOnceAMillisecond) {
  Note(100);  // at 1 ns
  EXPECT_FALSE(watch_.IsYoung(WorkerAt(0), 1'000'000));
  EXPECT_TRUE(watch_.IsYoung(WorkerAt(0), 1'000'001));
}

TEST_F(MemoryWatchTest, NobodyIsYoungAmongThreadsThatTakeTurnsOrWithoutAQuota) {
  config_.threads = 2;
  EXPECT_FALSE(watch_.IsYoung(WorkerAt(0), kSecond));
  config_.threads = 1;
  config_.quota_bytes = 0;
  EXPECT_FALSE(watch_.IsYoung(WorkerAt(0), kSecond));
}

TEST_F(MemoryWatchTest, LooksMoreOftenForAWhileWhereOneThreadFillsMemoryFast) {
  EXPECT_EQ(watch_.Interval(0), context_.timeouts.watch);
  watch_.LookMoreOften(0);
  EXPECT_TRUE(watch_.IsFast(0));
  EXPECT_LT(watch_.Interval(0), context_.timeouts.watch);
  EXPECT_EQ(watch_.Interval(kSecond), context_.timeouts.watch);
  config_.threads = 2;
  watch_.LookMoreOften(2 * kSecond);
  EXPECT_FALSE(watch_.IsFast(2 * kSecond));
}

}  // namespace
}  // namespace bulkhead
