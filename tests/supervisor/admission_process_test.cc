// Streams that are admitted against a memory budget, with real worker processes.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "absl/synchronization/notification.h"
#include "tests/supervisor/supervisor_process_fixture.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

// More than a worker holds, and its quota.
constexpr uint64_t kUnit = uint64_t{4} << 20;

class AdmissionTest : public SupervisorProcessTest {
 protected:
  // Holds four workers of a unit, or arenas in their place.
  void StartWithRoomForFour() {
    Supervisor::Config config;
    config.worker_program = program_;
    config.max_index_workers = 2;
    config.timeouts = timeouts_;
    config.index_worker_quota_bytes = kUnit;
    config.memory.supervisor_bytes = kUnit;
    config.memory.replacement_bytes = kUnit;
    config.memory.budget_bytes = 6 * kUnit;
    config.memory.limit_bytes = limit_bytes_;
    config.read_memory_limit = [this] { return limit_bytes_.load(); };
    config.limit_interval = absl::Milliseconds(1);
    config.idle_stream = idle_stream_;
    supervisor_ = Supervisor::Start(config).value();
  }

  absl::StatusOr<Admission> Admit(const std::string& key, uint32_t workers, uint64_t slot_bytes = 0,
                                  uint32_t slots = 1, Legacy* legacy = nullptr) {
    PipelineConfig pipeline;
    pipeline.key = key;
    pipeline.name = key;
    pipeline.binding = key;
    pipeline.workers = workers;
    pipeline.quota_bytes = kUnit;
    return supervisor_->Admit(pipeline, slots, slot_bytes, legacy);
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

  // A stream that stops to take batches once it has some, with all memory that it was promised.
  std::shared_ptr<Recorder> OpenUnread(const std::string& key, uint32_t workers,
                                       uint64_t slot_bytes = 0) {
    auto admission = Admit(key, workers, slot_bytes, 5);
    EXPECT_TRUE(admission.ok()) << admission.status();
    if (slot_bytes > 0) {
      arena_ = Arena::Create(slot_bytes, 5).value();
      memory_ = std::make_shared<ArenaMemory>(arena_, std::move(*admission->arena));
    }
    auto recorder = std::make_shared<Recorder>();
    recorder->HoldBatches();
    quota_bytes_ = kUnit;
    Open(key, 20, recorder, workers, 0, admission->pool);
    arena_ = nullptr;
    recorder->AwaitBatches(4);  // and one slot is kept
    return recorder;
  }

  std::atomic<uint64_t> limit_bytes_{1000 * kUnit};
  absl::Duration idle_stream_ = absl::InfiniteDuration();
  std::string program_ = FakeWorkerPath();
  PoolTimeouts timeouts_ = ShortBackoff();
};

TEST_F(AdmissionTest, APipelineGetsTheWorkersThatFit) {
  StartWithRoomForFour();
  const auto first = Admit("sound", 3);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->worker_count, 3u);
  const auto second = Admit("other", 3);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->worker_count, 1u);
  EXPECT_EQ(Promised().quota_bytes(), 4 * kUnit);
  EXPECT_EQ(supervisor_->GetStatus().workers_size(), 4);
}

TEST_F(AdmissionTest, StreamsOfOnePipelineShareItsWorkers) {
  StartWithRoomForFour();
  const auto first = Admit("sound", 4);
  ASSERT_TRUE(first.ok());
  const auto second = Admit("sound", 4);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->worker_count, 4u);
  EXPECT_EQ(Promised().quota_bytes(), 4 * kUnit);
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
  EXPECT_EQ(Promised().quota_bytes(), 4 * kUnit);
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
  EXPECT_EQ(Promised().quota_bytes(), 2 * kUnit);
}

TEST_F(AdmissionTest, AStreamThatIsRefusedCostsIdlePipelinesNothing) {
  StartWithRoomForFour();
  const auto busy = Admit("busy", 2);
  ASSERT_TRUE(busy.ok());
  ASSERT_TRUE(Admit("idle", 1).ok());  // and lets go of it
  AwaitStatus([](const v1::GetStatusResponse& status) { return status.workers_size() == 3; });
  // The idle worker's memory would not do.
  EXPECT_FALSE(Admit("large", 1, 2 * kUnit).ok());
  EXPECT_EQ(supervisor_->GetStatus().workers_size(), 3);
  EXPECT_EQ(Promised().quota_bytes(), 3 * kUnit);
  EXPECT_TRUE(Admit("fitting", 2).ok());
}

TEST_F(AdmissionTest, AnIndexWorkerCountsUntilItIsReaped) {
  StartWithRoomForFour();
  RunIndexJob("lingers");
  const v1::GetStatusResponse ending = supervisor_->GetStatus();
  ASSERT_EQ(ending.workers_size(), 1) << "it ended at once";
  EXPECT_EQ(ending.memory().quota_bytes(), kUnit);
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

TEST_F(AdmissionTest, AnIndexWorkerTakesTheReplacementsPlaceInAFullBudget) {
  StartWithRoomForFour();
  const auto all = Admit("busy", 4);
  ASSERT_TRUE(all.ok());
  for (int i = 0; i < 3; ++i) RunIndexJob("good");
  EXPECT_EQ(Promised().quota_bytes(), 4 * kUnit);
  EXPECT_EQ(Promised().arena_bytes(), 0u);
}

TEST_F(AdmissionTest, IndexWorkAndReplacementsTakeTurns) {
  StartWithRoomForFour();
  const auto all = Admit("sound", 4);
  ASSERT_TRUE(all.ok());
  AwaitStatus([](const v1::GetStatusResponse& status) {
    return std::all_of(status.workers().begin(), status.workers().end(),
                       [](const auto& worker) { return worker.state() == v1::WORKER_STATE_READY; });
  });
  EXPECT_EQ(supervisor_->Recycle("sound", std::nullopt), 4u);
  for (int i = 0; i < 20; ++i) {
    RunIndexJob("good");
    EXPECT_LE(supervisor_->GetStatus().workers_size(), 5) << "one more than the budget holds";
  }
  AwaitStatus(
      [](const v1::GetStatusResponse& status) { return status.recent_recyclings_size() == 4; });
}

TEST_F(AdmissionTest, AnArenaCountsUntilTheLastWorkerSaysThatItHasItNoMore) {
  StartWithRoomForFour();
  const auto admission = Admit("keeps-arenas", 1, kUnit);
  ASSERT_TRUE(admission.ok());
  arena_ = Arena::Create(4096, 5).value();
  memory_ = std::make_shared<ArenaMemory>(arena_, std::move(*admission->arena));
  auto recorder = std::make_shared<Recorder>();
  quota_bytes_ = kUnit;
  const uint64_t stream_id = Open("keeps-arenas", 3, recorder, 1, 0, admission->pool);
  ASSERT_TRUE(recorder->AwaitEnd().ok());
  supervisor_->CloseStream(stream_id);
  const auto status = supervisor_->GetStatus();  // behind that
  EXPECT_EQ(status.streams_size(), 0);
  EXPECT_EQ(status.memory().arena_bytes(), kUnit);
  ASSERT_EQ(kill(static_cast<pid_t>(status.workers(0).pid()), SIGKILL), 0);
  AwaitStatus([](const v1::GetStatusResponse& s) { return s.memory().arena_bytes() < kUnit; });
}

TEST_F(AdmissionTest, StreamsThatNobodyReadsGiveUpTheirWorkersToOthers) {
  idle_stream_ = absl::Nanoseconds(1);
  StartWithRoomForFour();
  const auto unread = OpenUnread("sound", 4);
  auto other = Admit("other", 2);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->worker_count, 2u);
  EXPECT_TRUE(unread->idle());
  const auto status = supervisor_->GetStatus();
  ASSERT_EQ(status.streams_size(), 1);
  EXPECT_TRUE(status.streams(0).idle());
  EXPECT_EQ(status.workers_size(), 2);
  EXPECT_EQ(status.memory().quota_bytes(), 2 * kUnit);

  unread->LetGo();  // it is read on: as many workers as fit
  EXPECT_TRUE(unread->AwaitEnd().ok());
  ExpectEveryPositionOnce(*unread, 20);
  EXPECT_FALSE(unread->idle());
  EXPECT_EQ(Promised().quota_bytes(), 4 * kUnit);
}

TEST_F(AdmissionTest, AStreamThatIsReadOnAndGetsNoWorkersHasToBeOpenedAgain) {
  idle_stream_ = absl::Nanoseconds(1);
  StartWithRoomForFour();
  const auto unread = OpenUnread("sound", 4);
  const auto other = Admit("other", 4);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->worker_count, 4u);
  unread->LetGo();
  const absl::Status ended = unread->AwaitEnd();
  EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorInfo(ended)->reason, reason::kStreamIdle);
  EXPECT_EQ(unread->batches(), 4u) << "whole batches, none twice";
}

// It has more places than before, and none of them has a worker when the first start fails.
TEST_F(AdmissionTest, APoolThatIsResumedWhileNoWorkerStartsGoesOnOnceOneDoes) {
  const TestDir folder;
  program_ = folder / "worker";
  const auto install = [&] { return symlink(FakeWorkerPath().c_str(), program_.c_str()) == 0; };
  ASSERT_TRUE(install());
  timeouts_.first_backoff = absl::Milliseconds(50);
  idle_stream_ = absl::Nanoseconds(1);
  StartWithRoomForFour();
  auto first = Admit("first", 3);
  const auto unread = OpenUnread("sound", 1);
  const auto other = Admit("other", 1);
  ASSERT_TRUE(first.ok() && other.ok());
  ASSERT_TRUE(unread->idle());
  first = absl::CancelledError();          // gives up its place
  ASSERT_EQ(unlink(program_.c_str()), 0);  // an upgrade replaces the program, say
  const auto second = Admit("sound", 3);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(unread->idle());
  const auto status = supervisor_->GetStatus();
  EXPECT_EQ(
      std::count_if(status.workers().begin(), status.workers().end(),
                    [](const auto& worker) { return worker.state() == v1::WORKER_STATE_BACKOFF; }),
      3);
  ASSERT_TRUE(install());
  unread->LetGo();
  EXPECT_TRUE(unread->AwaitEnd().ok());
  ExpectEveryPositionOnce(*unread, 20);
}

TEST_F(AdmissionTest, StreamsThatNobodyReadsGiveUpTheirPlacesLast) {
  idle_stream_ = absl::Nanoseconds(1);
  StartWithRoomForFour();
  const auto unread = OpenUnread("sound", 1, kUnit / 2);
  // Workers alone would not do.
  const auto other = Admit("other", 1, kUnit / 2, 5);
  ASSERT_FALSE(other.ok()) << "the fake client holds its batches still";
  EXPECT_EQ(GetErrorInfo(unread->AwaitEnd())->reason, reason::kStreamIdle);
  unread->LetGo();
  EXPECT_TRUE(Admit("other", 1, kUnit / 2, 5).ok());
}

TEST_F(AdmissionTest, NobodyGivesUpAnythingWhileNobodyWaits) {
  idle_stream_ = absl::Nanoseconds(1);
  StartWithRoomForFour();
  const auto unread = OpenUnread("sound", 2);
  const auto other = Admit("other", 2);  // fits
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(Admit("large", 1, 100 * kUnit).ok());  // would not fit all the same
  EXPECT_FALSE(unread->idle());
  EXPECT_EQ(supervisor_->GetStatus().workers_size(), 4);
  unread->LetGo();
  EXPECT_TRUE(unread->AwaitEnd().ok());
}

TEST_F(AdmissionTest, AStreamTakesOverWhatItsPredecessorHad) {
  StartWithRoomForFour();
  const auto first = Admit("sound", 1, 3 * kUnit);
  ASSERT_TRUE(first.ok());
  const auto arena = Arena::Create(3 * kUnit, 1).value();
  auto memory = std::make_shared<ArenaMemory>(arena, std::move(*first->arena));
  std::shared_ptr<const void> writer = memory->MakeWriter();
  const std::shared_ptr<Legacy> legacy = memory->Bequeath(first->pool);
  writer.reset();
  EXPECT_FALSE(Admit("other", 1, kUnit).ok()) << "it is the successor's";
  const auto second = Admit("sound", 1, 3 * kUnit, 1, legacy.get());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(Promised().arena_bytes(), 3 * kUnit);
}

TEST_F(AdmissionTest, AStreamKeepsItsWorkersFromBeingGivenUp) {
  StartWithRoomForFour();
  auto recorder = std::make_shared<Recorder>();
  uint64_t stream_id = 0;
  {
    const auto admission = Admit("sound", 4);
    ASSERT_TRUE(admission.ok());
    stream_id = Open("sound", 3, recorder, 4, 0, admission->pool);
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
    const auto admission = Admit("sound", 1, 3 * kUnit);
    ASSERT_TRUE(admission.ok()) << admission.status();
    retired = admission->arena;
  }
  EXPECT_EQ(Promised().arena_bytes(), 3 * kUnit);
  EXPECT_FALSE(Admit("sound", 1, 3 * kUnit).ok());
  retired.reset();
  EXPECT_EQ(Promised().arena_bytes(), 0u);
  EXPECT_TRUE(Admit("sound", 1, 3 * kUnit).ok());
}

TEST_F(AdmissionTest, ALoweredLimitEndsIdlePipelinesAndOpensNothingMore) {
  StartWithRoomForFour();
  auto recorder = std::make_shared<Recorder>();
  recorder->HoldBatches();
  {
    const auto admission = Admit("sound", 2);
    ASSERT_TRUE(admission.ok());
    Open("sound", 20, recorder, 2, 0, admission->pool);
  }
  ASSERT_TRUE(Admit("idle", 2).ok());
  recorder->AwaitBatches(1);
  limit_bytes_ = 3 * kUnit;
  const auto status = AwaitStatus([](const v1::GetStatusResponse& status) {
    return status.memory().limit_bytes() == 3 * kUnit && status.memory().quota_bytes() == 2 * kUnit;
  });
  EXPECT_EQ(status.memory().budget_bytes(), 6 * kUnit);
  const absl::Status refused = Admit("other", 1).status();
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("90% of the memory limit of 12MiB, which was lowered"));
  recorder->LetGo();  // the running stream goes on
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 20);
  limit_bytes_ = 1000 * kUnit;
  AwaitStatus([](const v1::GetStatusResponse& status) {
    return status.memory().limit_bytes() == 1000 * kUnit;
  });
  EXPECT_TRUE(Admit("other", 1).ok());
}

}  // namespace
}  // namespace bulkhead
