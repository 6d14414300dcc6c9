#include "server/supervisor/pool/planned_replacement.h"

#include <gmock/gmock.h>

#include "tests/supervisor/pool/pool_world.h"

namespace bulkhead {
namespace {

class PlannedReplacementTest : public PoolWorld {
 protected:
  PlannedReplacementTest() {
    context_.exits = &exits_;
    context_.gate = &gate_;
    context_.budget = budget_.get();
    replacement_ = std::make_unique<PlannedReplacement>(
        part_, dispatcher_, [this](Slot& slot) -> absl::StatusOr<std::unique_ptr<PoolWorker>> {
          if (!spawns_) return absl::UnavailableError("no process");
          return MakeWorker(slot.index);
        });
  }

  Slot& At(uint32_t slot) { return *crew_.slots()[slot]; }
  void Ask(uint32_t slot) {
    At(slot).asked = true;
    replacement_->BeginIfDue(MonotonicNanos());
  }
  // A worker ends as it was told to, or otherwise.
  bool End(PoolWorker& worker, bool as_told) {
    const Crew::Standing standing = crew_.StandingOf(worker);
    Slot& slot = crew_.SlotOf(worker);
    gone_ = crew_.TakeOut(worker);
    WorkerEnd end;
    end.as_told = as_told;
    return replacement_->OnExit(standing, slot, end);
  }

  ExitLog exits_;
  ReplacementGate gate_;
  const std::shared_ptr<MemoryBudget> budget_ = MemoryBudget::Create({}).value();
  Dispatcher dispatcher_{part_};
  bool spawns_ = true;
  std::unique_ptr<PlannedReplacement> replacement_;
  std::unique_ptr<PoolWorker> gone_;
};

TEST_F(PlannedReplacementTest, ASuccessorTakesOverAndThePredecessorFinishes) {
  Man(2);
  const PoolWorker* const old = &WorkerAt(0);
  Ask(0);
  ASSERT_TRUE(replacement_->active());
  PoolWorker* const successor = At(0).successor.get();
  ASSERT_NE(successor, nullptr);
  At(0).worker->held.push_back({});
  replacement_->OnWarmedUp(*successor, {});
  EXPECT_EQ(&WorkerAt(0), successor);
  EXPECT_EQ(At(0).predecessor.get(), old);
  replacement_->StopIfDrained();
  EXPECT_EQ(old->process->phase(), WorkerPhase::kReady) << "it holds a lease";
  At(0).predecessor->held.clear();
  replacement_->StopIfDrained();
  EXPECT_EQ(old->process->phase(), WorkerPhase::kStopping);
  EXPECT_TRUE(End(*At(0).predecessor, /*as_told=*/true));
  EXPECT_FALSE(replacement_->active());
  EXPECT_EQ(exits_.recycling_counts().at(v1::RECYCLE_CAUSE_REQUEST), 1u);
}

TEST_F(PlannedReplacementTest, OneAtATimeInTheWholeService) {
  Man(2);
  ASSERT_TRUE(gate_.TryEnter(this));
  Ask(0);
  EXPECT_FALSE(replacement_->active());
  gate_.Leave(this);
  replacement_->BeginIfDue(MonotonicNanos());
  EXPECT_TRUE(replacement_->active());
  Ask(1);
  EXPECT_EQ(At(1).successor, nullptr);
  // The next one begins when the first has ended.
  replacement_->OnWarmedUp(*At(0).successor, {});
  replacement_->StopIfDrained();
  End(*At(0).predecessor, /*as_told=*/true);
  EXPECT_NE(At(1).successor, nullptr);
}

TEST_F(PlannedReplacementTest, ASuccessorThatCannotStartOrDiesPutsTheReplacementOff) {
  Man(1);
  spawns_ = false;
  Ask(0);
  Ask(0);  // the first failure may be an accident
  EXPECT_EQ(At(0).failed_replacements, 1u);
  EXPECT_FALSE(gate_.holds(replacement_.get()));
  At(0).no_replacement_before_ns = 0;
  spawns_ = true;
  Ask(0);
  EXPECT_TRUE(End(*At(0).successor, /*as_told=*/false));
  EXPECT_EQ(At(0).failed_replacements, 2u);
  EXPECT_GT(At(0).no_replacement_before_ns, MonotonicNanos());
  EXPECT_FALSE(replacement_->active());
}

TEST_F(PlannedReplacementTest, ASuccessorOnItsWayTakesThePlaceOfAWorkerThatDies) {
  Man(1);
  Ask(0);
  const PoolWorker* const successor = At(0).successor.get();
  EXPECT_TRUE(End(WorkerAt(0), /*as_told=*/false));
  EXPECT_EQ(&WorkerAt(0), successor);
  EXPECT_EQ(At(0).deaths, 1u);
  EXPECT_FALSE(replacement_->active());
  EXPECT_FALSE(End(WorkerAt(0), /*as_told=*/false)) << "it is started again as usual";
}

// A pool that fails leaves places empty while a successor may still say that it is warm.
TEST_F(PlannedReplacementTest, ASuccessorOfNobodyTakesNoPlace) {
  Man(1);
  Ask(0);
  const std::unique_ptr<PoolWorker> old = crew_.TakeOut(WorkerAt(0));
  replacement_->OnWarmedUp(*At(0).successor, {});
  EXPECT_EQ(At(0).worker, nullptr);
  EXPECT_NE(At(0).successor, nullptr);
}

TEST_F(PlannedReplacementTest, GoesOnWithoutASuccessorThatDoesNotEnd) {
  config_.quota_bytes = 1000;
  Man(1);
  const PoolWorker* const old = &WorkerAt(0);
  Ask(0);
  PoolWorker& stuck = *At(0).successor;
  stuck.written_off = true;
  replacement_->GiveUp(stuck);
  EXPECT_EQ(&WorkerAt(0), old);
  EXPECT_TRUE(crew_.AnyLost());
  EXPECT_EQ(stuck.claims->quota.quota_bytes(), 1000u);
  EXPECT_FALSE(gate_.holds(replacement_.get()));
}

// A worker that holds 20 MiB, and 1 MiB more after each of 500 samples a second.
class GrowingWorkerTest : public PlannedReplacementTest {
 protected:
  static constexpr uint64_t kMiB = uint64_t{1} << 20;

  GrowingWorkerTest() {
    config_.quota_bytes = 256 * kMiB;
    Man(1);
  }
  void GrowTo(uint64_t samples) {
    for (; samples_ <= samples; samples_ += 4) Hold(samples_, (20 + samples_) * kMiB);
    replacement_->BeginIfDue(MonotonicNanos());
  }
  // It does samples, and holds as much as before.
  void Rest(uint64_t samples) {
    const uint64_t used = WorkerAt(0).memory.growth().used_bytes();
    for (const uint64_t end = samples_ + samples; samples_ < end; samples_ += 4)
      Hold(samples_, used);
    replacement_->BeginIfDue(MonotonicNanos());
  }
  void WarmUpSuccessor() {
    At(0).successor->spawned_ns = MonotonicNanos();
    replacement_->OnWarmedUp(*At(0).successor, {});
  }
  uint64_t Replaced() const {
    const auto& counts = exits_.recycling_counts();
    const auto found = counts.find(v1::RECYCLE_CAUSE_GROWTH);
    return found == counts.end() ? 0 : found->second;
  }

 private:
  void Hold(uint64_t samples, uint64_t bytes) {
    WorkerAt(0).memory.growth().Note(samples, bytes, static_cast<int64_t>(samples) * 2'000'000);
  }
  uint64_t samples_ = 0;
};

TEST_F(GrowingWorkerTest, ItsSuccessorStandsByUntilItIsFull) {
  const PoolWorker* const old = &WorkerAt(0);
  GrowTo(120);
  EXPECT_FALSE(replacement_->active());
  GrowTo(180);
  ASSERT_TRUE(replacement_->active());
  WarmUpSuccessor();
  EXPECT_EQ(&WorkerAt(0), old);
  GrowTo(216);  // 236 MiB; there is room for 12 more samples, so it gets no lease of 16
  EXPECT_EQ(&WorkerAt(0), old);
  GrowTo(228);  // 248 MiB; the next sample would take it above 0.97 of its quota
  EXPECT_EQ(At(0).predecessor.get(), old);
  EXPECT_TRUE(old->outgrew);
  replacement_->StopIfDrained();
  End(*At(0).predecessor, /*as_told=*/true);
  EXPECT_EQ(Replaced(), 1u);
}

TEST_F(GrowingWorkerTest, ItKeepsItsPlaceIfItStopsGrowing) {
  const PoolWorker* const old = &WorkerAt(0);
  GrowTo(180);
  WarmUpSuccessor();
  Rest(2000);
  EXPECT_EQ(At(0).successor->process->phase(), WorkerPhase::kStopping);
  EXPECT_TRUE(End(*At(0).successor, /*as_told=*/true));
  EXPECT_FALSE(replacement_->active());
  EXPECT_FALSE(gate_.holds(replacement_.get()));
  EXPECT_EQ(&WorkerAt(0), old);
  EXPECT_EQ(At(0).failed_replacements, 0u);
  EXPECT_EQ(Replaced(), 0u);
}

TEST_F(GrowingWorkerTest, AStandbyMakesRoomForOthers) {
  GrowTo(180);
  ASSERT_FALSE(gate_.TryEnter(this));
  GrowTo(184);
  EXPECT_EQ(At(0).successor->process->phase(), WorkerPhase::kStopping);
  WarmUpSuccessor();
  EXPECT_NE(At(0).successor, nullptr) << "one that is ending takes no place";
  End(*At(0).successor, /*as_told=*/true);
  EXPECT_TRUE(gate_.TryEnter(this));
}

TEST_F(GrowingWorkerTest, AfterADismissalOnlyAFullWorkerIsReplacedAtOnce) {
  GrowTo(180);
  gate_.TryEnter(this);
  GrowTo(184);
  End(*At(0).successor, /*as_told=*/true);
  gate_.Leave(this);
  At(0).no_standby_before_ns = MonotonicNanos() + 3'600'000'000'000;
  GrowTo(188);
  EXPECT_FALSE(replacement_->active());
  GrowTo(228);
  EXPECT_TRUE(replacement_->active());
}

TEST_F(GrowingWorkerTest, AWorkerThatGrowsWaitsForItsTurnWhileAnotherIsReplaced) {
  GrowTo(180);
  EXPECT_TRUE(replacement_->active());
  EXPECT_FALSE(At(0).is_due);
  GrowTo(184);
  EXPECT_TRUE(At(0).is_due);
  WarmUpSuccessor();
  Rest(2000);
  EXPECT_FALSE(At(0).is_due);
}

TEST_F(GrowingWorkerTest, WhereOneWasFullTheNextIsReplacedAsSoonAsItsSuccessorIsWarm) {
  const PoolWorker* const old = &WorkerAt(0);
  replacement_->NoteOutgrown();
  GrowTo(180);
  WarmUpSuccessor();
  EXPECT_EQ(At(0).predecessor.get(), old);
}

TEST_F(GrowingWorkerTest, AWorkerThatDiesGetsNoSuccessorThatIsEnding) {
  GrowTo(180);
  gate_.TryEnter(this);
  GrowTo(184);
  EXPECT_FALSE(End(WorkerAt(0), /*as_told=*/false)) << "it is started again as usual";
  EXPECT_EQ(At(0).worker, nullptr);
}

TEST_F(PlannedReplacementTest, AWarmUpAsksForTheNextSamplesUnlessTheyEndedOneBefore) {
  Man(1);
  AddStream();
  Ask(0);
  PoolWorker& successor = *At(0).successor;
  replacement_->WarmUp(successor);
  EXPECT_EQ(HandleOf(successor).sent.back().warm_up().positions_size(), 1);
  EXPECT_TRUE(successor.rehearsed);
  At(0).failed_replacements = 1;
  replacement_->WarmUp(successor);
  EXPECT_EQ(HandleOf(successor).sent.back().warm_up().positions_size(), 0);
  EXPECT_FALSE(successor.rehearsed);
}

}  // namespace
}  // namespace bulkhead
