#include "server/supervisor/pool/planned_replacement.h"

#include <gmock/gmock.h>

#include "tests/supervisor/pool_world.h"

namespace bulkhead {
namespace {

class PlannedReplacementTest : public PoolWorld {
 protected:
  PlannedReplacementTest() {
    context_.exits = &exits_;
    context_.gate = &gate_;
    context_.budget = budget_.get();
    replacement_ = std::make_unique<PlannedReplacement>(
        context_, config_, crew_, streams_, dispatcher_,
        [this](Slot& slot) -> absl::StatusOr<std::unique_ptr<PoolWorker>> {
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
  PoolContext context_;
  Dispatcher dispatcher_{config_, crew_, streams_};
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
