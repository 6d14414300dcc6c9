// Streams of a supervisor whose worker processes are killed and stopped for real.

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/os/process/thread_priority.h"
#include "tests/supervisor/supervisor_process_fixture.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

TEST_F(SupervisorProcessTest, DeliversEveryPositionInOrder) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("ok", 100, recorder);
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 100);
}

// An observer that keeps the supervisor's thread.
class Keeper final : public StreamObserver {
 public:
  void OnAdded() override {
    began_.Notify();
    goes_on_.WaitForNotification();
  }
  void OnBatch(ReadyBatch) override {}
  void OnEvent(const v1::SampleEvent&) override {}
  void OnEnd() override {}
  void OnFailed(const absl::Status&) override {}

  void AwaitBegin() { began_.WaitForNotification(); }
  void LetGo() { goes_on_.Notify(); }

 private:
  absl::Notification began_;
  absl::Notification goes_on_;
};

TEST_F(SupervisorProcessTest, AThreadThatIsAtOneThingIsSaidToBeSilentByOthers) {
  StartSupervisor();
  EXPECT_EQ(supervisor_->SilentFor(), absl::ZeroDuration());
  const auto keeper = std::make_shared<Keeper>();
  StreamConfig stream;
  stream.arena = Arena::Create(4096, 5).value();
  stream.observer = keeper;
  stream.batch_at = [](uint64_t) { return std::nullopt; };
  PipelineConfig pipeline;
  pipeline.key = pipeline.name = pipeline.binding = "ok";
  supervisor_->OpenStream(supervisor_->Admit(pipeline, 0, 0).value().pool, stream);
  keeper->AwaitBegin();
  const v1::GetStatusResponse silent = supervisor_->GetStatus();
  EXPECT_GE(silent.supervisor_silent_seconds(), 5);
  EXPECT_EQ(silent.workers_size(), 0);
  EXPECT_GE(supervisor_->SilentFor(), Supervisor::kSilence);
  EXPECT_EQ(supervisor_->Recycle("", std::nullopt), 0u);
  keeper->LetGo();
  AwaitStatus([](const auto& status) { return status.supervisor_silent_seconds() == 0; });
  EXPECT_GE(supervisor_->GetStatus().workers_size(), 1);
  EXPECT_TRUE(supervisor_->Shutdown());
}

TEST_F(SupervisorProcessTest, WorkersThatDieAgainAndAgainCostNothingButTime) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("die-in-third-lease", 40, recorder);
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 40);
  const auto status = supervisor_->GetStatus();
  EXPECT_GT(status.leases_redone(), 20);
  EXPECT_EQ(status.recent_exits(0).outcome(), "signaled");
}

TEST_F(SupervisorProcessTest, AWorkerKilledFromOutsideIsReplaced) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  recorder->HoldBatches();  // the stream stops when its slots are full
  Open("ok", 100, recorder, 1);
  recorder->AwaitBatches(4);
  const int64_t pid = supervisor_->GetStatus().workers(0).pid();
  ASSERT_EQ(kill(static_cast<pid_t>(pid), SIGKILL), 0);
  recorder->LetGo();
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 100);
  const auto status = supervisor_->GetStatus();
  EXPECT_NE(status.workers(0).pid(), pid);
  EXPECT_EQ(status.workers(0).generation(), 2);
}

TEST_F(SupervisorProcessTest, AThreadBombIsEndedByTheWatchdog) {
  quota_bytes_ = uint64_t{256} << 20;
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("thread-bomb", 10, recorder, 1);
  // It goes off in every worker, so that the stream ends in the end.
  const absl::Status status = recorder->AwaitEnd();
  EXPECT_EQ(GetErrorInfo(status)->reason, reason::kWorkerCrashLoop) << status;
  const v1::GetStatusResponse after = supervisor_->GetStatus();
  // Six that convict the lease, after up to two whose worker held another one, too.
  ASSERT_GE(after.recent_exits_size(), 6);
  ASSERT_LE(after.recent_exits_size(), 8);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr(absl::StrCat("ended ", after.recent_exits_size(), " workers")));
  for (const v1::WorkerExit& exit : after.recent_exits()) {
    EXPECT_EQ(exit.cause(), v1::EXIT_CAUSE_WATCHDOG);
    EXPECT_THAT(exit.reason(), testing::HasSubstr("threads"));
  }
  EXPECT_EQ(after.limit_events(), static_cast<uint64_t>(after.recent_exits_size()));
}

TEST_F(SupervisorProcessTest, AWorkerMayHaveAsManyThreadsAsTheOptionSays) {
  quota_bytes_ = uint64_t{256} << 20;
  extra_threads_ = 32;
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("some-threads", 20, recorder, 1);
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  EXPECT_EQ(supervisor_->GetStatus().recent_exits_size(), 0);

  extra_threads_ = 10;
  StartSupervisor();
  recorder = std::make_shared<Recorder>();
  recorder->HoldBatches();
  Open("some-threads", 20, recorder, 1);
  const auto status =
      AwaitStatus([](const auto& status) { return status.recent_exits_size() > 0; });
  EXPECT_EQ(status.recent_exits(0).cause(), v1::EXIT_CAUSE_WATCHDOG);
  EXPECT_THAT(status.recent_exits(0).reason(),
              testing::HasSubstr("threads beside its own, more than --worker-extra-threads 10"));
}

// Its threads together weigh as much as the one that the pool asked for.
TEST_F(SupervisorProcessTest, AWorkerOfManyBusyThreadsIsMadeNice) {
  extra_threads_ = 32;
  StartSupervisor();
  auto calm = std::make_shared<Recorder>();
  auto spinning = std::make_shared<Recorder>();
  calm->HoldBatches();
  spinning->HoldBatches();
  Open("ok", 100, calm, 1);
  Open("spins", 100, spinning, 1);
  AwaitStatus([](const v1::GetStatusResponse& status) {
    for (const v1::WorkerStatus& worker : status.workers()) {
      if (worker.pipeline() == "spins" && worker.pid() != 0) {
        const auto threads = ReadThreads(static_cast<pid_t>(worker.pid()));
        if (!threads.ok() || threads->ids.size() != 5) return false;
        return std::all_of(threads->ids.begin(), threads->ids.end(), [](pid_t thread) {
          return getpriority(PRIO_PROCESS, static_cast<id_t>(thread)) >=
                 getpriority(PRIO_PROCESS, 0) + 3;
        });
      }
    }
    return false;
  });
  const v1::GetStatusResponse now = supervisor_->GetStatus();
  for (const v1::WorkerStatus& worker : now.workers()) {
    if (worker.pipeline() != "ok") continue;
    EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(worker.pid())),
              getpriority(PRIO_PROCESS, 0));
  }
}

// What is kept for a next stream is kept at rest.
TEST_F(SupervisorProcessTest, WorkersThatGoOnWithoutAStreamAreEnded) {
  extra_threads_ = 32;
  StartSupervisor();
  for (const char* mode : {"ok", "spins"}) {
    auto recorder = std::make_shared<Recorder>();
    const uint64_t stream = Open(mode, 20, recorder, 1);
    EXPECT_TRUE(recorder->AwaitEnd().ok());
    supervisor_->CloseStream(stream);
  }
  const auto status = AwaitStatus([](const v1::GetStatusResponse& status) {
    return std::none_of(status.workers().begin(), status.workers().end(),
                        [](const auto& worker) { return worker.pipeline() == "spins"; });
  });
  EXPECT_TRUE(std::any_of(status.workers().begin(), status.workers().end(), [](const auto& worker) {
    return worker.pipeline() == "ok";
  })) << "a pipeline at rest keeps its workers for a while";
}

TEST_F(SupervisorProcessTest, ASlowConsumerBoundsWhatIsProduced) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  recorder->HoldBatches();
  Open("ok", 100, recorder);
  recorder->AwaitBatches(4);
  const v1::GetStatusResponse status = supervisor_->GetStatus();
  EXPECT_EQ(recorder->batches(), 4);  // five slots, one in reserve
  EXPECT_EQ(status.streams(0).arena().slots_free(), 1);
  EXPECT_EQ(status.streams(0).arena().slots_sending(), 4);
  recorder->LetGo();
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 100);
}

TEST_F(SupervisorProcessTest, ACrashLoopEndsInATypedError) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("crash-on-bind", 10, recorder);
  const absl::Status status = recorder->AwaitEnd();
  EXPECT_EQ(GetErrorInfo(status)->reason, "WORKER_CRASH_LOOP");
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("killed by signal 9"));
}

TEST_F(SupervisorProcessTest, AnExhaustedQuotaIsNamed) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("out-of-memory", 10, recorder);
  const absl::Status status = recorder->AwaitEnd();
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("out of memory"));
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("work"), "epoch 0, positions 0 to 15 of stream test");
}

TEST_F(SupervisorProcessTest, AWorkerThatMakesNoProgressIsKilledAndNamedSo) {
  PoolTimeouts timeouts = ShortBackoff();
  timeouts.hang = absl::Milliseconds(50);
  StartSupervisor(timeouts);
  auto recorder = std::make_shared<Recorder>();
  Open("hang", 10, recorder, 1);
  EXPECT_THAT(std::string(recorder->AwaitEnd().message()), testing::HasSubstr("no progress"));
}

// One worker for two streams, so that they share every death.
TEST_F(SupervisorProcessTest, ALeaseThatEndsItsWorkersEndsItsStreamAlone) {
  StartSupervisor();
  auto good = std::make_shared<Recorder>();
  auto poisoned = std::make_shared<Recorder>();
  const uint64_t good_id = Open("dies-at-1000020", 1000000000, good, 1);
  Open("dies-at-1000020", 1000, poisoned, 1, 1000000);
  const absl::Status status = poisoned->AwaitEnd();
  EXPECT_EQ(GetErrorInfo(status)->reason, "WORKER_CRASH_LOOP");
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("work"),
            "epoch 0, positions 1000016 to 1000031 of stream test");
  // Its workers do the other stream's work as before.
  good->AwaitBatches(good->batches() + 10);
  good->ExpectInOrder();
  const auto after = supervisor_->GetStatus();
  EXPECT_EQ(after.recent_exits_size(), 8);
  EXPECT_EQ(after.workers_size(), 1);
  supervisor_->CloseStream(good_id);
}

TEST_F(SupervisorProcessTest, AWorkerThatCannotBeRestartedNowIsRestartedLater) {
  const TestDir folder;
  const std::string program = folder / "worker";
  ASSERT_EQ(symlink(FakeWorkerPath().c_str(), program.c_str()), 0);
  StartSupervisor({}, program);
  auto recorder = std::make_shared<Recorder>();
  recorder->HoldBatches();
  Open("ok", 100, recorder, 1);
  recorder->AwaitBatches(4);
  ASSERT_EQ(unlink(program.c_str()), 0);
  kill(static_cast<pid_t>(supervisor_->GetStatus().workers(0).pid()), SIGKILL);
  const auto status =
      AwaitStatus([](const auto& status) { return status.workers(0).generation() >= 3; });
  EXPECT_EQ(status.workers(0).state(), v1::WORKER_STATE_BACKOFF);
  ASSERT_EQ(symlink(FakeWorkerPath().c_str(), program.c_str()), 0);
  recorder->LetGo();
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 100);
}

TEST_F(SupervisorProcessTest, ALeaseThatTakesLongIsNoHang) {
  PoolTimeouts timeouts = ShortBackoff();
  timeouts.hang = absl::Seconds(1);  // below the 1.6 seconds of a lease
  StartSupervisor(timeouts);
  auto recorder = std::make_shared<Recorder>();
  Open("slow", 1, recorder);
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  EXPECT_EQ(supervisor_->GetStatus().recent_exits_size(), 0);
}

TEST_F(SupervisorProcessTest, AWorkerThatReadsLateGetsAllItsMessages) {
  StartSupervisor();
  arena_ = Arena::Create(4096, 5).value();  // nobody looks at the bytes; descriptors are scarce
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (int i = 0; i < 400; ++i) {  // the socket holds fewer than 300 messages
    recorders.push_back(std::make_shared<Recorder>());
    Open("reads-late", 1, recorders.back(), 1);
  }
  for (const auto& recorder : recorders) EXPECT_TRUE(recorder->AwaitEnd().ok());
  EXPECT_EQ(supervisor_->GetStatus().recent_exits_size(), 0);
}

TEST_F(SupervisorProcessTest, AWorkerThatEndsUnbiddenIsListed) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("quits", 10, recorder, 1);
  EXPECT_EQ(GetErrorInfo(recorder->AwaitEnd())->reason, "WORKER_CRASH_LOOP");
  const auto status = supervisor_->GetStatus();
  ASSERT_GE(status.recent_exits_size(), 8);
  EXPECT_THAT(status.recent_exits(0).reason(),
              testing::HasSubstr("exited with code 0 without being asked to"));
}

TEST_F(SupervisorProcessTest, AWorkerThatBreaksTheProtocolIsKilled) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("hello-again", 1000000000, recorder, 1);
  const auto status =
      AwaitStatus([](const auto& status) { return status.recent_exits_size() > 0; });
  ASSERT_GT(status.recent_exits_size(), 0);
  EXPECT_THAT(status.recent_exits(0).reason(), testing::HasSubstr("broke the protocol"));
}

TEST_F(SupervisorProcessTest, TotalsStayWhenAStreamGoes) {
  StartSupervisor();
  error_action_ = v1::ERROR_ACTION_SUBSTITUTE;
  auto recorder = std::make_shared<Recorder>();
  const uint64_t id = Open("substitutes", 10, recorder);
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  EXPECT_EQ(supervisor_->GetStatus().samples_substituted(), 40);  // each batch has four leases
  supervisor_->CloseStream(id);
  const auto after = supervisor_->GetStatus();
  EXPECT_EQ(after.streams_size(), 0);
  EXPECT_EQ(after.samples_substituted(), 40);
}

TEST_F(SupervisorProcessTest, WhatDroppedWorkersUsedStaysInTheTotals) {
  Supervisor::Config config;
  config.worker_program = FakeWorkerPath();
  config.idle_pool = absl::Milliseconds(20);
  supervisor_ = Supervisor::Start(config).value();
  error_action_ = v1::ERROR_ACTION_SUBSTITUTE;
  auto recorder = std::make_shared<Recorder>();
  const uint64_t id = Open("substitutes", 2000, recorder);
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  absl::SleepFor(absl::Milliseconds(150));  // what is known of a process may be as old as that
  const auto before = supervisor_->GetStatus();
  double workers = 0;
  for (const auto& worker : before.workers()) workers += worker.usage().cpu_seconds();
  EXPECT_GT(workers, 0);
  EXPECT_GT(before.workers(0).usage().memory_bytes(), 0);
  supervisor_->CloseStream(id);
  const auto after = AwaitStatus([](const auto& status) { return status.workers_size() == 0; });
  EXPECT_GE(after.cpu_seconds(), before.cpu_seconds());
  // Not only kept at what it was: this process's own time goes on top of what they used.
  const double own = before.supervisor().cpu_seconds() + 0.1;
  const auto later =
      AwaitStatus([own](const auto& status) { return status.supervisor().cpu_seconds() >= own; });
  EXPECT_GE(later.cpu_seconds(), later.supervisor().cpu_seconds() + workers);
  EXPECT_EQ(after.samples_substituted(), before.samples_substituted());
  EXPECT_EQ(after.samples_produced(), 100000);
}

TEST_F(SupervisorProcessTest, AWorkerThatTalksNonsenseIsKilled) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("garbage", 10, recorder, 1);
  EXPECT_THAT(std::string(recorder->AwaitEnd().message()),
              testing::HasSubstr("it sent an invalid message"));
}

TEST_F(SupervisorProcessTest, CodeThatBreaksTheProtocolWhileItLoadsIsNamedAtOnce) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  user_code_ = "stages[0].python (a:b)";
  Open("garbage", 10, recorder, 1);
  const absl::Status status = recorder->AwaitEnd();
  EXPECT_EQ(GetErrorInfo(status)->reason, "STAGE_UNUSABLE");
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("loading stages[0].python (a:b) disturbs the worker: "));
}

TEST_F(SupervisorProcessTest, AWorkerThatBabblesGetsFewLinesAndDisturbsNobody) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("babbles", 2, recorder, 1);
  ASSERT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 2);
  const std::string notes = recorder->AwaitNote("lines were left out");
  EXPECT_THAT(notes, testing::StartsWith("\\x1b[2Jxxx"));
  // Of 8,000 lines, or 400 MB.
  const auto lines = std::count(notes.begin(), notes.end(), '\n');
  EXPECT_LT(lines, 4000);
  EXPECT_LE(notes.size(), static_cast<size_t>(lines) * 2049);
}

TEST_F(SupervisorProcessTest, TheDeathsOfWorkersAreNotesOfTheStream) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("die-in-third-lease", 20, recorder, 2);
  ASSERT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 20);
  EXPECT_THAT(recorder->AwaitNote("died"), testing::HasSubstr(": killed by signal 9 (Killed)"));
}

TEST_F(SupervisorProcessTest, ABindingThatFailsFailsTheStreamAtOnce) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("fail-to-bind", 10, recorder);
  const absl::Status status = recorder->AwaitEnd();
  EXPECT_EQ(GetErrorInfo(status)->reason, "CORRUPT_RECORD");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SupervisorProcessTest, ABrokenPoolDoesNotStandInTheWayOfANewTry) {
  char fault[] = "/tmp/bulkhead-test-XXXXXX";
  close(mkstemp(fault));
  StartSupervisor();
  auto broken = std::make_shared<Recorder>();
  Open(std::string("fail-to-bind-while:") + fault, 10, broken);
  EXPECT_FALSE(broken->AwaitEnd().ok());
  unlink(fault);
  auto recorder = std::make_shared<Recorder>();
  Open(std::string("fail-to-bind-while:") + fault, 10, recorder);
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 10);
}

TEST_F(SupervisorProcessTest, AFailedSampleEndsTheStreamBehindWhatCameBefore) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("fail-position-40", 10, recorder);
  const absl::Status status = recorder->AwaitEnd();
  EXPECT_EQ(GetErrorInfo(status)->reason, "CORRUPT_IMAGE");
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("position"), "40");
  EXPECT_EQ(recorder->batches(), 0);  // position 40 is in the first batch
}

TEST_F(SupervisorProcessTest, TwoStreamsShareTheWorkersOfTheirPipeline) {
  StartSupervisor();
  auto one = std::make_shared<Recorder>();
  auto two = std::make_shared<Recorder>();
  one->HoldBatches();
  two->HoldBatches();
  Open("ok", 30, one);
  Open("ok", 30, two);
  one->AwaitBatches(4);
  two->AwaitBatches(4);
  EXPECT_EQ(supervisor_->GetStatus().workers_size(), 2);
  EXPECT_EQ(supervisor_->GetStatus().streams_size(), 2);
  one->LetGo();
  two->LetGo();
  EXPECT_TRUE(one->AwaitEnd().ok());
  EXPECT_TRUE(two->AwaitEnd().ok());
  ExpectEveryPositionOnce(*one, 30);
  ExpectEveryPositionOnce(*two, 30);
}

TEST_F(SupervisorProcessTest, AClosedStreamGivesItsWorkersToTheOthers) {
  StartSupervisor();
  auto gone = std::make_shared<Recorder>();
  gone->HoldBatches();
  const uint64_t id = Open("ok", 1000000, gone);
  gone->AwaitBatches(4);
  supervisor_->CloseStream(id);
  gone->LetGo();
  auto other = std::make_shared<Recorder>();
  Open("ok", 30, other);
  EXPECT_TRUE(other->AwaitEnd().ok());
  ExpectEveryPositionOnce(*other, 30);
}

}  // namespace
}  // namespace bulkhead
