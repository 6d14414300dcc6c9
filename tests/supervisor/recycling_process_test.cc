// Planned replacements and the watchdog, with real processes.
#include <signal.h>

#include "tests/supervisor/supervisor_process_fixture.h"

namespace bulkhead::recycling_process_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

uint64_t Ends(const v1::GetStatusResponse& status, v1::ExitCause cause) {
  for (const v1::ExitCount& entry : status.exit_counts()) {
    if (entry.cause() == cause) return entry.count();
  }
  return 0;
}

class RecyclingProcessTest : public SupervisorProcessTest {
 protected:
  // Waits until so many replacements are done.
  v1::GetStatusResponse AwaitRecyclings(int count) {
    return AwaitStatus([count](const v1::GetStatusResponse& status) {
      return status.recent_recyclings_size() >= count;
    });
  }
};

TEST_F(RecyclingProcessTest, WorkersAreReplacedByHandWithoutLosingALease) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("leaks", 60, recorder);  // without a quota: 2 ms a sample
  recorder->AwaitBatches(2);
  EXPECT_EQ(supervisor_->Recycle("another", {}), 0u);
  EXPECT_EQ(supervisor_->Recycle("", {}), 2u);
  const v1::GetStatusResponse status = AwaitRecyclings(2);
  EXPECT_EQ(supervisor_->RecyclingCounts()[v1::RECYCLE_CAUSE_REQUEST], 2u);
  ASSERT_EQ(status.recent_recyclings_size(), 2);
  EXPECT_LT(recorder->batches(), 60u);
  EXPECT_EQ(status.leases_redone(), 0u);
  EXPECT_EQ(Ends(status, v1::EXIT_CAUSE_RECYCLED), 2u);
  EXPECT_EQ(status.recent_exits_size(), 0);
  for (const v1::Recycling& recycling : status.recent_recyclings()) {
    EXPECT_EQ(recycling.cause(), v1::RECYCLE_CAUSE_REQUEST);
    EXPECT_EQ(recycling.generation(), 1u);
    EXPECT_GT(recycling.start_seconds(), 0);
    EXPECT_GT(recycling.reap_seconds(), 0);
  }
  EXPECT_NE(status.recent_recyclings(0).slot(), status.recent_recyclings(1).slot());
  ASSERT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 60);
}

TEST_F(RecyclingProcessTest, AWorkerThatLeaksIsReplacedBeforeItsQuotaBites) {
  StartSupervisor();
  quota_bytes_ = 128 * kMiB;
  auto recorder = std::make_shared<Recorder>();
  Open("leaks", 20, recorder, /*workers=*/1);  // a gigabyte in all
  ASSERT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 20);
  const v1::GetStatusResponse status = supervisor_->GetStatus();
  EXPECT_GE(status.recent_recyclings_size(), 5);
  for (const v1::Recycling& recycling : status.recent_recyclings()) {
    EXPECT_EQ(recycling.cause(), v1::RECYCLE_CAUSE_GROWTH);
    EXPECT_GT(recycling.memory_bytes(), 30 * kMiB);
    EXPECT_LE(recycling.memory_bytes(), 128 * kMiB);
  }
  EXPECT_EQ(status.limit_events(), 0u);
  EXPECT_EQ(status.leases_redone(), 0u);
}

// It could do 300 samples, of 1 MiB each, until its successor is warm.
TEST_F(RecyclingProcessTest, AWorkerThatLeaksWaitsForASuccessorThatIsLate) {
  StartSupervisor();
  quota_bytes_ = 256 * kMiB;
  auto recorder = std::make_shared<Recorder>();
  Open("leaks-and-warms-up-late", 20, recorder, /*workers=*/1);
  ASSERT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 20);
  const v1::GetStatusResponse status = supervisor_->GetStatus();
  EXPECT_GE(status.recent_recyclings_size(), 2);
  EXPECT_EQ(status.limit_events(), 0u);
  EXPECT_EQ(status.leases_redone(), 0u);
}

TEST_F(RecyclingProcessTest, WhoHoldsMoreThanTheQuotaIsKilledByTheWatchdog) {
  StartSupervisor();
  quota_bytes_ = 64 * kMiB;
  auto recorder = std::make_shared<Recorder>();
  Open("takes-much", 20, recorder, /*workers=*/1);
  const absl::Status end = recorder->AwaitEnd();
  EXPECT_EQ(GetErrorInfo(end)->reason, reason::kPoisonSample);
  EXPECT_THAT(std::string(end.message()), testing::HasSubstr("more than its quota of 64MiB"));
  EXPECT_THAT(std::string(end.message()), testing::StartsWith("120 ended 3 fresh workers"));
  const v1::GetStatusResponse status = supervisor_->GetStatus();
  // On a busy machine a worker more may die of it before one has it alone.
  EXPECT_GE(status.limit_events(), 1u + Blame::kPoisonDeaths);
  ASSERT_GE(status.recent_exits_size(), 1);
  const v1::WorkerExit& exit = status.recent_exits(0);
  EXPECT_EQ(exit.cause(), v1::EXIT_CAUSE_WATCHDOG);
  EXPECT_EQ(exit.activity(0).sample(), "120");
}

TEST_F(RecyclingProcessTest, ASampleThatCrashesItsWorkerIsSetApartAtOnce) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("crashes-at-120", 20, recorder, /*workers=*/2);
  const absl::Status end = recorder->AwaitEnd();
  EXPECT_EQ(GetErrorInfo(end)->reason, reason::kPoisonSample);
  EXPECT_THAT(std::string(end.message()), testing::HasSubstr("bulkhead quarantine add '120'"));
  const v1::GetStatusResponse status = supervisor_->GetStatus();
  // One in company, and then alone each.
  EXPECT_EQ(Ends(status, v1::EXIT_CAUSE_CRASHED), 1u + Blame::kPoisonDeaths);
}

TEST_F(RecyclingProcessTest, TheServiceReplacesOneWorkerAtATime) {
  StartSupervisor();
  auto first = std::make_shared<Recorder>();
  auto second = std::make_shared<Recorder>();
  Open("leaks", 1000, first);
  Open("slow", 1000, second);
  first->AwaitBatches(1);
  supervisor_->Recycle("", {});
  AwaitStatus([](const v1::GetStatusResponse& status) {
    int extra = 0;
    for (const v1::WorkerStatus& worker : status.workers()) {
      extra += worker.standby() || worker.draining() ? 1 : 0;
    }
    EXPECT_LE(extra, 1);
    return status.recent_recyclings_size() >= 4;
  });
}

TEST_F(RecyclingProcessTest, ASuccessorThatDiesLeavesTheOldWorkerWhereItIs) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("dies-in-warm-up", 100, recorder, /*workers=*/1);
  recorder->AwaitBatches(1);
  supervisor_->Recycle("", {});
  ASSERT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 100);
  const v1::GetStatusResponse status = AwaitStatus(
      [](const v1::GetStatusResponse& now) { return Ends(now, v1::EXIT_CAUSE_KILLED) >= 1; });
  EXPECT_EQ(status.recent_recyclings_size(), 0);
  EXPECT_EQ(status.leases_redone(), 0u);
}

TEST_F(RecyclingProcessTest, TheDeathOfASuccessorIsNotToldAsThatOfItsWorker) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("dies-in-warm-up", 1000000000, recorder, /*workers=*/1);
  recorder->AwaitBatches(1);
  supervisor_->Recycle("", {});
  EXPECT_THAT(recorder->AwaitNote("died"),
              testing::HasSubstr("1 worker died: the standby of worker 0: killed by signal 9"));
}

// The old worker is still at its leases: they must not be lost with the new one.
TEST_F(RecyclingProcessTest, ANewWorkerThatDiesWhileTheOldOneFinishesLosesNothing) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("slow", 12, recorder, /*workers=*/1);  // 100 ms a sample
  recorder->AwaitBatches(1);
  supervisor_->Recycle("", {});
  const v1::GetStatusResponse status = AwaitStatus([](const v1::GetStatusResponse& now) {
    return now.workers_size() == 2 && now.workers(1).draining() && now.workers(1).leases() > 0;
  });
  ASSERT_EQ(status.workers_size(), 2);
  ASSERT_EQ(kill(static_cast<pid_t>(status.workers(0).pid()), SIGKILL), 0);
  AwaitStatus([](const v1::GetStatusResponse& now) {
    return now.recent_recyclings_size() == 1 && now.workers_size() == 1 &&
           now.workers(0).generation() == 3 && now.workers(0).samples() > 0;
  });
}

TEST_F(RecyclingProcessTest, ASuccessorThatHangsWhileItWarmsUpIsGivenUp) {
  PoolTimeouts timeouts = ShortBackoff();
  timeouts.start = absl::Milliseconds(500);
  timeouts.hang = absl::Milliseconds(500);
  StartSupervisor(timeouts);
  auto recorder = std::make_shared<Recorder>();
  Open("never-warm", 100'000, recorder, /*workers=*/1);
  recorder->AwaitBatches(1);
  supervisor_->Recycle("", {});
  const v1::GetStatusResponse status = AwaitStatus(
      [](const v1::GetStatusResponse& now) { return Ends(now, v1::EXIT_CAUSE_HUNG) >= 1; });
  EXPECT_EQ(status.workers(0).generation(), 1u) << "the old one goes on";
  EXPECT_EQ(status.leases_redone(), 0u);
}

TEST_F(RecyclingProcessTest, ASuccessorOnItsWayTakesThePlaceOfAWorkerThatDies) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("never-warm", 100000, recorder, /*workers=*/1);
  recorder->AwaitBatches(1);
  supervisor_->Recycle("", {});
  const v1::GetStatusResponse before = AwaitStatus([](const v1::GetStatusResponse& status) {
    return status.workers_size() == 2 && status.workers(1).standby() &&
           status.workers(1).state() == v1::WORKER_STATE_READY;
  });
  ASSERT_EQ(kill(static_cast<pid_t>(before.workers(0).pid()), SIGKILL), 0);
  const v1::GetStatusResponse after = AwaitStatus([](const v1::GetStatusResponse& status) {
    return status.workers_size() == 1 && status.workers(0).samples() > 0 &&
           status.workers(0).generation() == 2;
  });
  EXPECT_EQ(after.workers(0).pid(), before.workers(1).pid());
  EXPECT_EQ(after.recent_recyclings_size(), 0);
}

}  // namespace
}  // namespace bulkhead::recycling_process_test
