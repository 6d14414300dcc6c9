#include "server/worker/lease_runner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/arena/exit_codes.h"
#include "server/base/error.h"
#include "server/pipeline/stage_observer.h"
#include "server/sampler/mixture_order.h"
#include "tests/worker/lease_runner_fixture.h"

namespace bulkhead {
namespace {

TEST_F(LeaseRunnerTest, WritesSamplesInPlaceAndReports) {
  gate_.Notify();
  ASSERT_TRUE(AddStream(Binding(7)).ok());
  runner_->Add(MakeLease(1, 7, 1));
  const auto reports = AwaitReports(1);
  EXPECT_EQ(reports[0].lease_done().lease_id(), 1);
  EXPECT_EQ(reports[0].lease_done().stream_id(), 7);
  uint64_t records[2];
  std::memcpy(records, arena_->slot(1) + 4 * 8, sizeof(records));
  EXPECT_EQ(records[0], 34);
  EXPECT_EQ(records[1], 35);
}

// Notes, while a sample is produced and when its lease is reported, which slots can be touched: a
// write() from any other fails, and a read() into it.
class ProbingPipeline final : public Pipeline {
 public:
  uint64_t record_count() const override { return 100; }
  std::unique_ptr<PipelineContext> NewContext() const override {
    return std::make_unique<PipelineContext>();
  }
  std::string Identity(uint64_t record) const override { return absl::StrCat("record@", record); }
  absl::Status Produce(uint64_t, const SampleKey&, PipelineContext&,
                       absl::Span<std::byte* const> destinations) const override {
    // The sample's row is the fifth or sixth of slot 1.
    slots_ =
        reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(destinations[0]) / 4096 * 4096) -
        4096;
    at_work_ = Touchable();
    return absl::OkStatus();
  }
  // By slot.
  std::vector<bool> Touchable() const {
    int fds[2];
    EXPECT_EQ(pipe(fds), 0);
    const UniqueFd reader(fds[0]);
    const UniqueFd writer(fds[1]);
    std::vector<bool> touchable;
    for (int slot = 0; slot < 2; ++slot) {
      touchable.push_back(write(writer.get(), slots_ + slot * 4096, 1) == 1);
    }
    return touchable;
  }

  mutable std::byte* slots_ = nullptr;
  mutable std::vector<bool> at_work_;
};

TEST_F(LeaseRunnerTest, TouchesTheSlotsOfItsLeasesAloneAndOnlyUntilTheyAreReported) {
  auto owned = std::make_unique<ProbingPipeline>();
  const ProbingPipeline& pipeline = *owned;
  std::vector<bool> when_reported;
  runner_ = std::make_unique<LeaseRunner>(std::move(owned), 1,
                                          [&](const internal::v1::FromWorker& message) {
                                            absl::MutexLock lock(&mutex_);
                                            if (message.has_lease_done())
                                              when_reported = pipeline.Touchable();
                                            reports_.push_back(message);
                                          });
  ASSERT_TRUE(AddStream(Binding(7)).ok());
  runner_->Add(MakeLease(1, 7, 1));
  EXPECT_EQ(AwaitReports(1)[0].lease_done().lease_id(), 1);
  EXPECT_EQ(pipeline.at_work_, (std::vector<bool>{false, true}));
  EXPECT_EQ(when_reported, (std::vector<bool>{false, false}));
  runner_.reset();
}

TEST_F(LeaseRunnerTest, TakesRecordsOfAMixtureInItsOrder) {
  internal::v1::StreamBinding binding = Binding(7);
  binding.clear_order();
  binding.clear_file_records();
  std::vector<MixedRecords> sources(2);
  for (const uint64_t records : {60, 40}) {
    internal::v1::MixedOrder& mixed = *binding.add_mixed();
    mixed.set_weight(static_cast<double>(records));
    mixed.mutable_order()->mutable_sequential();
    mixed.add_file_records(records);
    sources[binding.mixed_size() - 1] = {mixed.weight(), mixed.order(), {records}};
  }
  const auto order = MakeMixtureOrder(sources, binding.seed(), 100).value();
  gate_.Notify();
  ASSERT_TRUE(AddStream(binding).ok());
  runner_->Add(MakeLease(1, 7, 1));
  EXPECT_EQ(AwaitReports(1)[0].lease_done().lease_id(), 1);
  uint64_t records[2];
  std::memcpy(records, arena_->slot(1) + 4 * 8, sizeof(records));
  EXPECT_EQ(records[0], order->RecordAt(0, 34));
  EXPECT_EQ(records[1], order->RecordAt(0, 35));
  binding.mutable_mixed(1)->set_weight(0);
  EXPECT_FALSE(AddStream(binding).ok());
}

TEST_F(LeaseRunnerTest, WarmsUpWithASampleForNobodyAndSaysWhenItIsDone) {
  ASSERT_TRUE(AddStream(Binding(7)).ok());
  internal::v1::WarmUp request;
  request.add_positions()->set_stream_id(7);
  request.mutable_positions(0)->set_position(12);
  runner_->WarmUp(request);
  at_work_.WaitForNotification();
  runner_->Add(MakeLease(1, 7, 1));
  {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(reports_.empty()) << "it is still at the sample";
  }
  gate_.Notify();
  const auto reports = AwaitReports(2);
  EXPECT_TRUE(reports[0].has_warmed_up());
  EXPECT_EQ(reports[1].lease_done().lease_id(), 1);
  uint64_t nothing[4] = {};
  EXPECT_EQ(std::memcmp(arena_->slot(0), nothing, sizeof(nothing)), 0) << "no slot was touched";
}

TEST_F(LeaseRunnerTest, WarmingUpForNoStreamIsDoneAtOnce) {
  internal::v1::WarmUp request;
  request.add_positions()->set_stream_id(8);  // was just removed
  runner_->WarmUp(request);
  EXPECT_TRUE(AwaitReports(1)[0].has_warmed_up());
}

// The supervisor counts what a worker holds by what it reports: a lease that is dropped in silence
// would be held for ever.
TEST_F(LeaseRunnerTest, ReportsTheLeasesThatARemovedStreamLeavesWaiting) {
  ASSERT_TRUE(AddStream(Binding(7)).ok());
  runner_->Add(MakeLease(1, 7));
  at_work_.WaitForNotification();
  runner_->Add(MakeLease(2, 7));
  runner_->Add(MakeLease(3, 7));
  runner_->RemoveStream(7);
  auto reports = AwaitReports(2);
  EXPECT_EQ(reports[0].lease_failed().lease_id(), 2);
  EXPECT_EQ(reports[1].lease_failed().lease_id(), 3);
  gate_.Notify();
  reports = AwaitReports(4);
  EXPECT_EQ(reports[2].lease_done().lease_id(), 1);
  EXPECT_EQ(reports[3].stream_removed().stream_id(), 7);
}

// GatedPipeline calls record 34 "record@34"; under policy `fail` its quarantine fails the lease.
TEST_F(LeaseRunnerTest, AQuarantineSetIsInForceForTheLeasesThatFollowIt) {
  ASSERT_TRUE(AddStream(Binding(7)).ok());
  runner_->Add(MakeLease(1, 7));
  at_work_.WaitForNotification();
  runner_->Add(MakeLease(2, 7));  // waits, with the old set
  internal::v1::SetQuarantine set;
  set.set_stream_id(7);
  set.add_quarantined("record@35");
  ASSERT_TRUE(runner_->SetQuarantine(set).ok());
  runner_->Add(MakeLease(3, 7));
  set.clear_quarantined();
  ASSERT_TRUE(runner_->SetQuarantine(set).ok());
  runner_->Add(MakeLease(4, 7));
  set.set_stream_id(8);
  EXPECT_TRUE(runner_->SetQuarantine(set).ok());  // of a stream that was just removed, perhaps
  set.add_quarantined("");
  EXPECT_FALSE(runner_->SetQuarantine(set).ok());
  gate_.Notify();
  const auto reports = AwaitReports(4);
  EXPECT_TRUE(reports[0].has_lease_done());
  EXPECT_TRUE(reports[1].has_lease_done());
  ASSERT_TRUE(reports[2].has_lease_failed());
  EXPECT_EQ(reports[2].lease_failed().lease_id(), 3);
  EXPECT_EQ(reports[2].lease_failed().position(), 35);
  EXPECT_EQ(reports[2].lease_failed().error().reason(), "QUARANTINED");
  EXPECT_TRUE(reports[3].has_lease_done());
}

TEST_F(LeaseRunnerTest, AStreamMayBeginWithAQuarantineSet) {
  gate_.Notify();
  internal::v1::StreamBinding binding = Binding(7);
  binding.add_quarantined("record@34");
  ASSERT_TRUE(AddStream(binding).ok());
  runner_->Add(MakeLease(1, 7));
  EXPECT_EQ(AwaitReports(1)[0].lease_failed().position(), 34);
  binding.add_quarantined("");
  EXPECT_FALSE(AddStream(binding).ok());
}

TEST_F(LeaseRunnerTest, RefusesLeasesThatMakeNoSense) {
  gate_.Notify();
  ASSERT_TRUE(AddStream(Binding(7)).ok());
  runner_->Add(MakeLease(1, 8));
  runner_->Add(MakeLease(2, 7, 2));
  internal::v1::Lease beyond = MakeLease(3, 7);
  beyond.set_first_sample(15);
  runner_->Add(beyond);
  const auto reports = AwaitReports(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(reports[i].lease_failed().lease_id(), i + 1);
}

TEST_F(LeaseRunnerTest, RefusesASchemaThatExceedsTheSlot) {
  internal::v1::StreamBinding binding = Binding(7);
  binding.mutable_schema()->mutable_tensors(0)->set_sample_bytes(257);
  EXPECT_FALSE(AddStream(binding).ok());
  binding.mutable_schema()->mutable_tensors(0)->set_sample_bytes(256);
  EXPECT_TRUE(AddStream(binding).ok());
  binding.mutable_schema()->mutable_tensors(0)->set_batch_offset(1);
  EXPECT_FALSE(AddStream(binding).ok());
}

// Fails the first `failures` calls.
class FlakyPipeline final : public Pipeline {
 public:
  FlakyPipeline(int failures, absl::Status failure) : failures_(failures), failure_(failure) {}

  uint64_t record_count() const override { return 100; }
  std::unique_ptr<PipelineContext> NewContext() const override {
    return std::make_unique<PipelineContext>();
  }
  std::string Identity(uint64_t record) const override { return absl::StrCat("record@", record); }
  absl::Status Produce(uint64_t, const SampleKey&, PipelineContext&,
                       absl::Span<std::byte* const>) const override {
    ++calls_;
    return failures_-- > 0 ? failure_ : absl::OkStatus();
  }
  int calls() const { return calls_; }

 private:
  mutable int failures_;
  mutable int calls_ = 0;
  const absl::Status failure_;
};

class FlakyRunnerTest : public LeaseRunnerTest {
 protected:
  // Runs a lease of one sample over a pipeline that fails; returns the first thing reported.
  internal::v1::FromWorker Run(int failures, absl::string_view reason) {
    return Run(failures, MakeError(absl::StatusCode::kUnavailable, reason, "no answer"),
               absl::Hours(1));
  }
  internal::v1::FromWorker Run(int failures, const absl::Status& failure,
                               absl::Duration progress_interval) {
    auto pipeline = std::make_unique<FlakyPipeline>(failures, failure);
    pipeline_ = pipeline.get();
    runner_ = std::make_unique<LeaseRunner>(
        std::move(pipeline), 1,
        [this](const internal::v1::FromWorker& message) {
          absl::MutexLock lock(&mutex_);
          reports_.push_back(message);
        },
        absl::Microseconds(1), progress_interval);
    EXPECT_TRUE(AddStream(Binding(7)).ok());
    internal::v1::Lease lease = MakeLease(1, 7);
    lease.set_count(1);
    runner_->Add(lease);
    return AwaitReports(1)[0];
  }

  FlakyPipeline* pipeline_ = nullptr;
};

TEST_F(FlakyRunnerTest, AsksStorageAgain) {
  EXPECT_TRUE(Run(LeaseRunner::kReadRetries, reason::kFileUnreadable).has_lease_done());
  EXPECT_EQ(pipeline_->calls(), LeaseRunner::kReadRetries + 1);
}

TEST_F(FlakyRunnerTest, GivesUpInTheEnd) {
  const auto report = Run(LeaseRunner::kReadRetries + 1, reason::kFileNotFound);
  EXPECT_EQ(report.lease_failed().error().reason(), "FILE_NOT_FOUND");
  EXPECT_EQ(report.lease_failed().position(), 34);
}

TEST_F(FlakyRunnerTest, DoesNotAskAgainWhereTheAnswerIsFinal) {
  EXPECT_TRUE(Run(1, reason::kFileChanged).has_lease_failed());
  EXPECT_EQ(pipeline_->calls(), 1);
}

TEST_F(FlakyRunnerTest, StorageThatRefusesIsNoProgress) {
  const absl::Status refusal =
      MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable, "no answer");
  EXPECT_TRUE(Run(LeaseRunner::kReadRetries + 1, refusal, absl::ZeroDuration()).has_lease_failed());
}

TEST_F(FlakyRunnerTest, ABadRecordIsProgress) {
  const absl::Status bad = SampleError(reason::kCorruptImage, "not an image");
  EXPECT_TRUE(Run(1, bad, absl::ZeroDuration()).has_lease_progress());
}

TEST_F(LeaseRunnerTest, SaysThatSamplesWereFinishedBeforeTheLeaseIs) {
  gate_.Notify();
  runner_ = std::make_unique<LeaseRunner>(
      std::make_unique<GatedPipeline>(&at_work_, &gate_), 1,
      [this](const internal::v1::FromWorker& message) {
        absl::MutexLock lock(&mutex_);
        reports_.push_back(message);
      },
      absl::Microseconds(1), /*progress_interval=*/absl::ZeroDuration());
  ASSERT_TRUE(AddStream(Binding(7)).ok());
  runner_->Add(MakeLease(1, 7));
  const auto reports = AwaitReports(3);
  EXPECT_TRUE(reports[0].has_lease_progress());
  EXPECT_TRUE(reports[1].has_lease_progress());
  EXPECT_TRUE(reports[2].has_lease_done());
}

// Tells its observer as a real one does, and what the recorder says then.
class NotedPipeline final : public Pipeline {
 public:
  explicit NotedPipeline(const FlightRecorder* recorder) : recorder_(recorder) {}
  uint64_t record_count() const override { return 100; }
  std::unique_ptr<PipelineContext> NewContext() const override {
    return std::make_unique<PipelineContext>();
  }
  std::vector<std::string> StageNames() const override { return {"stages[0] resize"}; }
  std::string Identity(uint64_t record) const override { return absl::StrCat("record@", record); }
  absl::Status Produce(uint64_t record, const SampleKey& key, PipelineContext& context,
                       absl::Span<std::byte* const> destinations) const override {
    context.observer->BeginSample(key);
    context.observer->Enter(StageObserver::kFirstStage);
    const FlightSnapshot::Thread at = recorder_->Snapshot().threads[0];
    EXPECT_EQ(at.stage, "stages[0] resize");
    EXPECT_EQ(at.stream_id, 7u);
    EXPECT_EQ(at.lease_id, 3u);
    EXPECT_EQ(at.position, key.position);
    context.observer->EndSample();
    return absl::OkStatus();
  }

 private:
  const FlightRecorder* const recorder_;
};

TEST_F(LeaseRunnerTest, NotesWhichLeaseAThreadIsAt) {
  const FlightRecorder recorder = FlightRecorder::Create(1).value();
  runner_ = std::make_unique<LeaseRunner>(
      std::make_unique<NotedPipeline>(&recorder), 1,
      [this](const internal::v1::FromWorker& message) {
        absl::MutexLock lock(&mutex_);
        reports_.push_back(message);
      },
      absl::Microseconds(1), absl::Hours(1), &recorder);
  ASSERT_TRUE(AddStream(Binding(7)).ok());
  runner_->Add(MakeLease(3, 7));
  EXPECT_TRUE(AwaitReports(1)[0].has_lease_done());
  EXPECT_EQ(recorder.Snapshot().samples, 2u);
  runner_.reset();  // before the recorder
}

// A library asks for memory that is refused, and throws.
class GreedyPipeline final : public Pipeline {
 public:
  uint64_t record_count() const override { return 100; }
  std::unique_ptr<PipelineContext> NewContext() const override {
    return std::make_unique<PipelineContext>();
  }
  std::vector<std::string> StageNames() const override { return {"stages[0] resize"}; }
  std::string Identity(uint64_t record) const override { return absl::StrCat("record@", record); }
  absl::Status Produce(uint64_t record, const SampleKey& key, PipelineContext& context,
                       absl::Span<std::byte* const> destinations) const override {
    context.observer->BeginSample(key);
    context.observer->Enter(StageObserver::kFirstStage);
    throw std::bad_alloc();
  }
};

TEST_F(LeaseRunnerTest, RefusedMemoryEndsTheProcessAndNamesTheStage) {
  const FlightRecorder recorder = FlightRecorder::Create(1).value();
  runner_.reset();  // a child has no threads to join
  const auto work = [&] {
    runner_ = std::make_unique<LeaseRunner>(
        std::make_unique<GreedyPipeline>(), 1, [](const internal::v1::FromWorker&) {},
        absl::Microseconds(1), absl::Hours(1), &recorder);
    if (AddStream(Binding(7)).ok()) runner_->Add(MakeLease(3, 7));
    absl::SleepFor(absl::Minutes(1));
  };
  EXPECT_EXIT(work(), testing::ExitedWithCode(kExitOutOfMemory), "");
  EXPECT_EQ(recorder.Snapshot().refused_stage, "stages[0] resize");
  EXPECT_EQ(recorder.Snapshot().refused_thread, 0);
  EXPECT_EQ(recorder.Snapshot().threads[0].lease_id, 3u);
}

TEST_F(LeaseRunnerTest, EndsWhileLeasesWait) {
  ASSERT_TRUE(AddStream(Binding(7)).ok());
  for (int i = 0; i < 10; ++i) runner_->Add(MakeLease(i, 7));
  at_work_.WaitForNotification();
  gate_.Notify();
  runner_.reset();
}

}  // namespace
}  // namespace bulkhead
