// Streams that are admitted against a memory budget, with real worker processes.

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <atomic>

#include "absl/synchronization/notification.h"
#include "tests/supervisor/supervisor_process_fixture.h"

namespace bulkhead {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class AdmissionTest : public SupervisorProcessTest {
 protected:
  // Holds four workers of 1 MiB, or arenas in their place.
  void StartWithRoomForFour() {
    Supervisor::Config config;
    config.worker_program = FakeWorkerPath();
    config.max_index_workers = 2;
    config.timeouts = ShortBackoff();
    config.index_worker_quota_bytes = kMiB;
    config.memory.supervisor_bytes = kMiB;
    config.memory.replacement_bytes = kMiB;
    config.memory.budget_bytes = 6 * kMiB;
    config.memory.limit_bytes = limit_bytes_;
    config.read_memory_limit = [this] { return limit_bytes_.load(); };
    config.limit_interval = absl::Milliseconds(1);
    supervisor_ = Supervisor::Start(config).value();
  }

  absl::StatusOr<Supervisor::Admission> Admit(const std::string& key, uint32_t workers,
                                              uint64_t slot_bytes = 0) {
    PipelineConfig pipeline;
    pipeline.key = key;
    pipeline.name = key;
    pipeline.binding = key;
    pipeline.workers = workers;
    pipeline.quota_bytes = kMiB;
    return supervisor_->Admit(pipeline, 1, slot_bytes);
  }

  // Blocks until an index worker has done it.
  void RunIndexJob(const std::string& name) {
    absl::Notification done;
    IndexJob job;
    job.request.mutable_file()->set_name(name);
    const UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
    job.fd = null.get();
    job.on_progress = [](uint64_t, uint64_t) {};
    job.on_done = [&](const absl::StatusOr<uint64_t>& records) {
      EXPECT_TRUE(records.ok()) << records.status();
      done.Notify();
    };
    supervisor_->AddIndexJob(std::move(job));
    done.WaitForNotification();
  }

  v1::MemoryBudget Promised() { return supervisor_->GetStatus().memory(); }

  std::atomic<uint64_t> limit_bytes_{1000 * kMiB};
};

TEST_F(AdmissionTest, APipelineGetsTheWorkersThatFit) {
  StartWithRoomForFour();
  const auto first = Admit("sound", 3);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->worker_count, 3u);
  const auto second = Admit("other", 3);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->worker_count, 1u);
  EXPECT_EQ(Promised().quota_bytes(), 4 * kMiB);
  EXPECT_EQ(supervisor_->GetStatus().workers_size(), 4);
}

TEST_F(AdmissionTest, StreamsOfOnePipelineShareItsWorkers) {
  StartWithRoomForFour();
  const auto first = Admit("sound", 4);
  ASSERT_TRUE(first.ok());
  const auto second = Admit("sound", 4);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->worker_count, 4u);
  EXPECT_EQ(Promised().quota_bytes(), 4 * kMiB);
}

TEST_F(AdmissionTest, IsRefusedOnlyWhenNotOneWorkerFits) {
  StartWithRoomForFour();
  const auto first = Admit("sound", 4);
  ASSERT_TRUE(first.ok());
  const absl::Status refused = Admit("other", 1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(refused)->reason, reason::kBudgetExceeded);
}

TEST_F(AdmissionTest, IdlePipelinesGiveUpTheirWorkersForOthers) {
  StartWithRoomForFour();
  ASSERT_TRUE(Admit("first", 2).ok());   // and lets go of it
  ASSERT_TRUE(Admit("second", 2).ok());  // likewise
  // Until the supervisor has heard of that, nothing can be given up.
  AwaitStatus([](const v1::GetStatusResponse& status) { return status.workers_size() == 4; });
  const auto third = Admit("third", 2);
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(third->worker_count, 2u);
  // Only as many as needed: one of the others is left.
  EXPECT_EQ(Promised().quota_bytes(), 4 * kMiB);
  EXPECT_TRUE(Admit("second", 2).ok());
}

TEST_F(AdmissionTest, WorkersThatWereGivenUpCountUntilTheyAreReaped) {
  StartWithRoomForFour();
  ASSERT_TRUE(Admit("idle", 4).ok());
  const auto idle = AwaitStatus([](const v1::GetStatusResponse& status) {
    return std::all_of(status.workers().begin(), status.workers().end(),
                       [](const auto& worker) { return worker.state() == v1::WORKER_STATE_READY; });
  });
  ASSERT_EQ(idle.workers_size(), 4);
  const auto other = Admit("other", 2);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->worker_count, 2u);
  for (const v1::WorkerStatus& worker : idle.workers()) {
    EXPECT_EQ(kill(static_cast<pid_t>(worker.pid()), 0), -1) << "it holds its memory still";
  }
  EXPECT_EQ(Promised().quota_bytes(), 2 * kMiB);
}

TEST_F(AdmissionTest, AStreamThatIsRefusedCostsIdlePipelinesNothing) {
  StartWithRoomForFour();
  const auto busy = Admit("busy", 2);
  ASSERT_TRUE(busy.ok());
  ASSERT_TRUE(Admit("idle", 1).ok());  // and lets go of it
  AwaitStatus([](const v1::GetStatusResponse& status) { return status.workers_size() == 3; });
  // The idle worker's memory would not do.
  EXPECT_FALSE(Admit("large", 1, 2 * kMiB).ok());
  EXPECT_EQ(supervisor_->GetStatus().workers_size(), 3);
  EXPECT_EQ(Promised().quota_bytes(), 3 * kMiB);
  EXPECT_TRUE(Admit("fitting", 2).ok());
}

TEST_F(AdmissionTest, AnIndexWorkerCountsUntilItIsReaped) {
  StartWithRoomForFour();
  RunIndexJob("lingers");
  const v1::GetStatusResponse ending = supervisor_->GetStatus();
  ASSERT_EQ(ending.workers_size(), 1) << "it ended at once";
  EXPECT_EQ(ending.memory().quota_bytes(), kMiB);
  AwaitStatus([](const v1::GetStatusResponse& status) {
    return status.workers().empty() && status.memory().quota_bytes() == 0;
  });
}

TEST_F(AdmissionTest, AnIndexWorkerTakesThePlaceOfIdleOnes) {
  StartWithRoomForFour();
  ASSERT_TRUE(Admit("idle", 4).ok());
  AwaitStatus([](const v1::GetStatusResponse& status) { return status.workers_size() == 4; });
  RunIndexJob("good");
}

TEST_F(AdmissionTest, AStreamKeepsItsWorkersFromBeingGivenUp) {
  StartWithRoomForFour();
  auto recorder = std::make_shared<Recorder>();
  uint64_t stream_id = 0;
  {
    const auto admission = Admit("sound", 4);
    ASSERT_TRUE(admission.ok());
    stream_id = Open("sound", 3, recorder, 4);
  }
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  EXPECT_FALSE(Admit("other", 1).ok());
  supervisor_->CloseStream(stream_id);
  EXPECT_TRUE(Admit("other", 1).ok());
}

TEST_F(AdmissionTest, AnArenaCountsUntilTheLastHolderLetsGo) {
  StartWithRoomForFour();
  std::shared_ptr<const MemoryClaim> retired;
  {
    const auto admission = Admit("sound", 1, 3 * kMiB);
    ASSERT_TRUE(admission.ok()) << admission.status();
    retired = admission->arena;
  }
  EXPECT_EQ(Promised().arena_bytes(), 3 * kMiB);
  EXPECT_FALSE(Admit("sound", 1, 3 * kMiB).ok());
  retired.reset();
  EXPECT_EQ(Promised().arena_bytes(), 0u);
  EXPECT_TRUE(Admit("sound", 1, 3 * kMiB).ok());
}

TEST_F(AdmissionTest, ALoweredLimitEndsIdlePipelinesAndOpensNothingMore) {
  StartWithRoomForFour();
  auto recorder = std::make_shared<Recorder>();
  recorder->HoldBatches();
  {
    const auto admission = Admit("sound", 2);
    ASSERT_TRUE(admission.ok());
    Open("sound", 20, recorder, 2);
  }
  ASSERT_TRUE(Admit("idle", 2).ok());
  recorder->AwaitBatches(1);
  limit_bytes_ = 3 * kMiB;
  const auto status = AwaitStatus([](const v1::GetStatusResponse& status) {
    return status.memory().limit_bytes() == 3 * kMiB && status.memory().quota_bytes() == 2 * kMiB;
  });
  EXPECT_EQ(status.memory().budget_bytes(), 6 * kMiB);
  const absl::Status refused = Admit("other", 1).status();
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("90% of the memory limit of 3MiB, which was lowered"));
  recorder->LetGo();  // the running stream goes on
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 20);
  limit_bytes_ = 1000 * kMiB;
  AwaitStatus([](const v1::GetStatusResponse& status) {
    return status.memory().limit_bytes() == 1000 * kMiB;
  });
  EXPECT_TRUE(Admit("other", 1).ok());
}

}  // namespace
}  // namespace bulkhead
