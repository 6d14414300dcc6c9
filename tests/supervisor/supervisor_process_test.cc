// The supervisor with real worker processes (fake_worker.cc), killed and stopped for real.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/os/memory_map.h"
#include "server/supervisor/supervisor.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

std::string FakeWorkerPath() {
  return std::string(std::getenv("BULKHEAD_TEST_BIN_DIR")) + "/fake_worker";
}

// Records what a stream delivers; copies every batch and lets go of its slot at once, or holds on
// to it.
class Recorder final : public StreamObserver {
 public:
  void OnBatch(ReadyBatch batch) override {
    absl::MutexLock lock(&mutex_);
    for (uint64_t i = 0; i < batch.header.sample_count(); ++i) {
      bytes_.push_back(static_cast<uint8_t>(batch.hold->data()[i]));
    }
    sequences_.push_back(batch.header.sequence());
    if (hold_) held_.push_back(std::move(batch));
  }
  void OnEvent(const v1::SampleEvent& event) override {}
  void OnEnd() override {
    absl::MutexLock lock(&mutex_);
    end_ = absl::OkStatus();
  }
  void OnFailed(const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    end_ = status;
  }

  // Waits for the end of the stream.
  absl::Status AwaitEnd() {
    absl::MutexLock lock(&mutex_);
    const auto ended = [this] { return end_.has_value(); };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&ended), kPatience)) {
      return absl::DeadlineExceededError("the stream did not end");
    }
    return *end_;
  }
  void AwaitBatches(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, count] { return sequences_.size() >= count; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), kPatience));
  }
  void HoldBatches() { hold_ = true; }
  void LetGo() {
    absl::MutexLock lock(&mutex_);
    hold_ = false;
    held_.clear();
  }
  std::vector<uint8_t> bytes() {
    absl::MutexLock lock(&mutex_);
    return bytes_;
  }
  size_t batches() {
    absl::MutexLock lock(&mutex_);
    return sequences_.size();
  }
  void ExpectInOrder() {
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < sequences_.size(); ++i) EXPECT_EQ(sequences_[i], i);
  }

 private:
  absl::Mutex mutex_;
  std::vector<uint8_t> bytes_;
  std::vector<uint64_t> sequences_;
  std::vector<ReadyBatch> held_;
  bool hold_ = false;
  std::optional<absl::Status> end_;
};

class SupervisorProcessTest : public testing::Test {
 protected:
  static PoolTimeouts ShortBackoff() {
    PoolTimeouts timeouts;
    timeouts.first_backoff = absl::Milliseconds(1);
    return timeouts;
  }

  void StartSupervisor(PoolTimeouts timeouts = ShortBackoff(),
                       const std::string& program = FakeWorkerPath()) {
    Supervisor::Config config;
    config.worker_program = program;
    config.max_index_workers = 2;
    config.timeouts = timeouts;
    supervisor_ = Supervisor::Start(config).value();
  }

  uint64_t Open(const std::string& mode, uint64_t batches, std::shared_ptr<Recorder> recorder,
                uint32_t workers = 2, uint64_t first_position = 0) {
    PipelineConfig pipeline;
    pipeline.key = mode;
    pipeline.name = mode;
    pipeline.binding = mode;
    pipeline.workers = workers;
    StreamConfig stream;
    stream.name = "test";
    stream.arena = arena_ != nullptr ? arena_ : Arena::Create(4096, 5).value();
    stream.max_substitutions_per_epoch = 1000000;
    stream.binding.set_slot_bytes(4096);
    stream.binding.set_slot_count(5);
    stream.observer = recorder;
    stream.batch_at = [batches,
                       first_position](uint64_t sequence) -> std::optional<v1::BatchHeader> {
      if (sequence >= batches) return std::nullopt;
      v1::BatchHeader header;
      header.set_sequence(sequence);
      header.set_first_position(first_position + sequence * 50);
      header.set_sample_count(50);
      return header;
    };
    return supervisor_->OpenStream(pipeline, stream);
  }

  // Asks for the status until `enough` says so.
  template <typename Enough>
  v1::GetStatusResponse AwaitStatus(const Enough& enough) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (true) {
      v1::GetStatusResponse status = supervisor_->GetStatus();
      if (enough(status)) return status;
      if (absl::Now() > deadline) {
        ADD_FAILURE() << "waited in vain; the last status: " << status.ShortDebugString();
        return status;
      }
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  // The bytes of a whole stream are 0, 1, 2, … modulo 256.
  static void ExpectEveryPositionOnce(Recorder& recorder, uint64_t batches) {
    const auto bytes = recorder.bytes();
    ASSERT_EQ(bytes.size(), batches * 50);
    for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], static_cast<uint8_t>(i)) << i;
    recorder.ExpectInOrder();
  }

  std::unique_ptr<Supervisor> supervisor_;
  std::shared_ptr<Arena> arena_;  // for all streams, where set
};

TEST_F(SupervisorProcessTest, DeliversEveryPositionInOrder) {
  StartSupervisor();
  auto recorder = std::make_shared<Recorder>();
  Open("ok", 100, recorder);
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 100);
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
  char folder[] = "/tmp/bulkhead-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string program = std::string(folder) + "/worker";
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
  unlink(program.c_str());
  rmdir(folder);
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
  EXPECT_THAT(status.recent_exits(0).reason(), testing::HasSubstr("by itself with code 0"));
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
  EXPECT_THAT(std::string(recorder->AwaitEnd().message()), testing::HasSubstr("not one"));
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
  StartSupervisor();
  for (int i = 0; i < 2; ++i) {
    auto recorder = std::make_shared<Recorder>();
    Open("fail-to-bind", 10, recorder);
    EXPECT_FALSE(recorder->AwaitEnd().ok());
  }
  EXPECT_EQ(supervisor_->GetStatus().workers_size(), 4);  // two pools of two
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

// Index jobs.

struct IndexResult {
  absl::Mutex mutex;
  std::optional<absl::StatusOr<uint64_t>> records;

  absl::StatusOr<uint64_t> Await() {
    absl::MutexLock lock(&mutex);
    const auto done = [this] { return records.has_value(); };
    if (!mutex.AwaitWithTimeout(absl::Condition(&done), kPatience)) {
      return absl::DeadlineExceededError("the index job did not end");
    }
    return *records;
  }
};

uint64_t AddIndexJob(Supervisor& supervisor, const std::string& name, int fd,
                     std::shared_ptr<IndexResult> result) {
  IndexJob job;
  job.request.mutable_file()->set_name(name);
  job.fd = fd;
  job.on_progress = [](uint64_t, uint64_t) {};
  job.on_done = [result](absl::StatusOr<uint64_t> records) {
    absl::MutexLock lock(&result->mutex);
    result->records = std::move(records);
  };
  return supervisor.AddIndexJob(std::move(job));
}

UniqueFd TemporaryFile() { return UniqueFd(fileno(tmpfile())); }

TEST_F(SupervisorProcessTest, BuildsIndexesOfManyFiles) {
  StartSupervisor();
  std::vector<UniqueFd> files;
  std::vector<std::shared_ptr<IndexResult>> results;
  for (int i = 0; i < 20; ++i) {
    files.push_back(TemporaryFile());
    results.push_back(std::make_shared<IndexResult>());
    AddIndexJob(*supervisor_, std::string(i + 1, 'x'), files.back().get(), results.back());
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(*results[i]->Await(), i + 1);
}

TEST_F(SupervisorProcessTest, AnIndexErrorIsTheFilesOwn) {
  StartSupervisor();
  const UniqueFd file = TemporaryFile();
  auto result = std::make_shared<IndexResult>();
  AddIndexJob(*supervisor_, "bad", file.get(), result);
  EXPECT_EQ(GetErrorInfo(result->Await().status())->reason, "TRUNCATED_RECORD");
}

TEST_F(SupervisorProcessTest, AFileThatKillsItsWorkersIsNamed) {
  StartSupervisor();
  const UniqueFd file = TemporaryFile();
  auto result = std::make_shared<IndexResult>();
  AddIndexJob(*supervisor_, "kills-workers", file.get(), result);
  const absl::Status status = result->Await().status();
  EXPECT_EQ(GetErrorInfo(status)->reason, "WORKER_CRASH_LOOP");
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("file"), "kills-workers");
}

TEST_F(SupervisorProcessTest, AFileThatCannotBeReadOnIsNamedAndHoldsUpNoOther) {
  PoolTimeouts timeouts = ShortBackoff();
  timeouts.hang = absl::Milliseconds(200);
  StartSupervisor(timeouts);
  const UniqueFd file = TemporaryFile();
  std::vector<std::shared_ptr<IndexResult>> hung;
  for (int i = 0; i < 2; ++i) {  // as many as there are workers
    hung.push_back(std::make_shared<IndexResult>());
    AddIndexJob(*supervisor_, "hangs", file.get(), hung.back());
  }
  const UniqueFd good_file = TemporaryFile();
  auto good = std::make_shared<IndexResult>();
  AddIndexJob(*supervisor_, "xyz", good_file.get(), good);
  for (const auto& result : hung) {
    const absl::Status status = result->Await().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(GetErrorInfo(status)->reason, "FILE_UNREADABLE");
    EXPECT_EQ(GetErrorInfo(status)->metadata.at("file"), "hangs");
  }
  EXPECT_EQ(*good->Await(), 3);
}

TEST_F(SupervisorProcessTest, IndexWorkersThatCannotStartAreNotStartedForEver) {
  Supervisor::Config config;
  config.worker_program = "/bin/false";
  supervisor_ = Supervisor::Start(config).value();
  const UniqueFd file = TemporaryFile();
  auto result = std::make_shared<IndexResult>();
  AddIndexJob(*supervisor_, "x", file.get(), result);
  EXPECT_EQ(GetErrorInfo(result->Await().status())->reason, "WORKER_CRASH_LOOP");
}

TEST_F(SupervisorProcessTest, AMissingWorkerProgramIsATypedError) {
  Supervisor::Config config;
  config.worker_program = "/nonexistent/bulkhead-worker";
  config.timeouts = ShortBackoff();
  supervisor_ = Supervisor::Start(config).value();
  auto recorder = std::make_shared<Recorder>();
  Open("ok", 1, recorder);
  EXPECT_EQ(recorder->AwaitEnd().code(), absl::StatusCode::kUnavailable);
  const UniqueFd file = TemporaryFile();
  auto result = std::make_shared<IndexResult>();
  AddIndexJob(*supervisor_, "x", file.get(), result);
  EXPECT_EQ(result->Await().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace bulkhead
