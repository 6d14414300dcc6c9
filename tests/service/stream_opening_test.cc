// The way from Open to the first lease, with a supervisor whose workers never start.
#include "server/service/stream_opening.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/synchronization/notification.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Opens the call when the stream is there, as a session does.
class Opener final : public StreamObserver {
 public:
  explicit Opener(Outbox* outbox) : outbox_(outbox) {}
  void OnAdded() override {
    outbox_->Open();
    added_.Notify();
  }
  void OnBatch(ReadyBatch) override {}
  void OnEvent(const v1::SampleEvent&) override {}
  void OnEnd() override {}
  void OnFailed(const absl::Status&) override {}
  void AwaitAdded() { EXPECT_TRUE(added_.WaitForNotificationWithTimeout(absl::Seconds(30))); }

 private:
  Outbox* const outbox_;
  absl::Notification added_;
};

class StreamOpeningTest : public testing::Test {
 protected:
  StreamOpeningTest() {
    ServiceLimits limits;
    limits.workers = 8;
    limits.worker_quota_bytes = uint64_t{1} << 30;
    preparer_.emplace(limits, DataRoots{}, nullptr);
    context_.preparer = &*preparer_;
    StartSupervisor({});
    context_.sessions = &sessions_;
    context_.directory = &directory_;
    context_.quarantine = std::make_shared<QuarantineStore>("/none");
    context_.io = IoThread::Start().value();
    open_.mutable_spec()->mutable_text()->set_text("source: {range: {size: 10}}\nbatch: {size: 2}");
    open_.set_name("train");
  }

  void StartSupervisor(const MemoryBudget::Config& memory) {
    Supervisor::Config config;
    config.name = "opening";
    config.worker_program = "/none";
    config.timeouts.first_backoff = absl::Hours(1);
    config.memory = memory;
    supervisor_ = Supervisor::Start(std::move(config)).value();
    context_.supervisor = supervisor_.get();
  }
  absl::Status Run() {
    StreamOpening opening(context_, {"", "process 1", "peer"}, outbox_, claims_, log_);
    v1::Open open = open_;
    RequestMemory::Place place;
    return opening.Run(open, place, {observer_, [](const absl::Status&) { return nullptr; }, {}});
  }
  // What is refused leaves nothing behind once the call gives back what it has.
  std::string Refusal() {
    const absl::Status status = Run();
    claims_.End();
    EXPECT_THAT(written_, IsEmpty());
    ExpectNothingLeft();
    return GetErrorInfo(status).has_value() ? GetErrorInfo(status)->reason : status.ToString();
  }
  void ExpectNothingLeft() {
    const v1::GetStatusResponse status = supervisor_->GetStatus();
    EXPECT_EQ(status.streams_size(), 0);
    EXPECT_EQ(status.memory().arena_bytes(), 0u);
  }
  void OnWrite(const grpc::ByteBuffer& message) {
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(message.Dump(&slices).ok());
    std::string bytes;
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    EXPECT_TRUE(written_.emplace_back().ParseFromString(bytes));
  }

  std::optional<Preparer> preparer_;
  SessionRegistry sessions_;
  StreamDirectory directory_;
  SessionContext context_;
  v1::Open open_;
  std::vector<v1::StreamResponse> written_;
  Outbox outbox_{
      {[this](const grpc::ByteBuffer* message) { OnWrite(*message); }, [](const absl::Status&) {}}};
  StreamClaims claims_;
  StreamCounts counts_;
  RepeatedLines refusals_;
  StreamLog log_{"peer", "boot", &counts_, &refusals_};
  const std::shared_ptr<Opener> observer_ = std::make_shared<Opener>(&outbox_);
  std::unique_ptr<Supervisor> supervisor_;  // goes before what its thread calls
};

TEST_F(StreamOpeningTest, TheAnswerIsThereWhenTheStreamIs) {
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  observer_->AwaitAdded();
  ASSERT_EQ(written_.size(), 1u);
  const v1::Opened& opened = written_[0].opened();
  EXPECT_EQ(opened.schema().tensors(0).name(), "index");
  EXPECT_EQ(opened.transport(), v1::TRANSPORT_GRPC);
  EXPECT_THAT(opened.transport_reason(), HasSubstr("did not come through the arena door"));
  const v1::GetStatusResponse open = supervisor_->GetStatus();
  ASSERT_EQ(open.streams_size(), 1);
  EXPECT_EQ(open.streams(0).name(), "train");
  EXPECT_EQ(open.streams(0).peer(), "peer");
  EXPECT_EQ(open.workers_size(), 8);
  EXPECT_EQ(opened.memory().slot_count(), 17u) << "all workers have something to do";
  EXPECT_EQ(opened.memory().arena_bytes(), 17 * opened.memory().slot_bytes());
  EXPECT_EQ(open.memory().arena_bytes(), opened.memory().arena_bytes());
  claims_.End();
  ExpectNothingLeft();
}

TEST_F(StreamOpeningTest, ADatasetThatNobodyUsesMakesRoom) {
  MemoryBudget::Config memory;
  memory.budget_bytes = uint64_t{5}
                        << 29;  // for a worker of 1 GiB, half of that, and a replacement
  memory.replacement_bytes = uint64_t{1} << 30;
  StartSupervisor(memory);
  DatasetStore::Config config;
  config.allowed = true;
  config.most_bytes = UINT64_MAX;
  config.admit = [this](uint64_t bytes) -> absl::StatusOr<std::shared_ptr<void>> {
    BULKHEAD_ASSIGN_OR_RETURN(MemoryClaim claim, supervisor_->AdmitDataset(bytes));
    return std::make_shared<MemoryClaim>(std::move(claim));
  };
  config.end_idle = [this] { return supervisor_->EndIdleWithDataset(); };
  DatasetStore datasets(config);
  context_.datasets = &datasets;
  v1::PutDatasetRequest part;
  part.set_id(std::string(64, 'a'));
  part.set_size(uint64_t{1} << 30);
  part.set_data("x");
  const int64_t before_ns = MonotonicNanos() - absl::ToInt64Nanoseconds(DatasetStore::kComing);
  ASSERT_TRUE(datasets.Put(part, "", before_ns).ok());
  EXPECT_EQ(Run(), absl::OkStatus());
  part.clear_data();
  EXPECT_EQ(*datasets.Put(part, "", before_ns), 0);
  claims_.End();
  ExpectNothingLeft();
}

TEST_F(StreamOpeningTest, WarnsAClientThatAsksToShareWhereNothingIsShared) {
  open_.set_share(true);
  ASSERT_TRUE(Run().ok());
  observer_->AwaitAdded();
  outbox_.OnWritten(true);
  ASSERT_EQ(written_.size(), 2u);
  const v1::StreamResponse& told = written_[written_[0].has_note() ? 0 : 1];
  EXPECT_EQ(told.note().level(), v1::Note::LEVEL_WARNING);
  EXPECT_EQ(told.note().text(),
            "`share` has no effect: this service lets streams share nothing (--share-window 0)");
  EXPECT_THAT(supervisor_->GetStatus().streams(0).share().reason(), HasSubstr("--share-window 0"));
  claims_.End();
}

TEST_F(StreamOpeningTest, ABriefStreamHasOneWorkerThatEndsWithIt) {
  open_.set_brief(true);
  ASSERT_TRUE(Run().ok());
  observer_->AwaitAdded();
  EXPECT_EQ(supervisor_->GetStatus().workers_size(), 1);
  claims_.End();
  ExpectNothingLeft();
  EXPECT_EQ(supervisor_->GetStatus().workers_size(), 0);
}

TEST_F(StreamOpeningTest, RefusesASpecThatMakesNoSense) {
  open_.mutable_spec()->mutable_text()->set_text("source: {range: {size: 0}}");
  EXPECT_EQ(Refusal(), reason::kSpecInvalid);
}

TEST_F(StreamOpeningTest, RefusesACursorOfOtherData) {
  open_.mutable_cursor()->set_order_fingerprint("another");
  EXPECT_EQ(Refusal(), reason::kCursorMismatch);
}

TEST_F(StreamOpeningTest, RefusesSharedMemoryThatCannotBeHad) {
  open_.set_transport(v1::TRANSPORT_SHM);
  EXPECT_EQ(Refusal(), reason::kTransportUnavailable);
}

TEST_F(StreamOpeningTest, WhateverIsWrongWhileTheServiceShutsDownTheClientIsToldOfThat) {
  sessions_.StartDraining();
  open_.mutable_spec()->mutable_text()->set_text("source: {range: {size: 0}}");
  EXPECT_EQ(Refusal(), reason::kShuttingDown);
}

}  // namespace
}  // namespace bulkhead
