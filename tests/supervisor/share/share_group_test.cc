// A group without a pool: who makes its batches, where, and what it says when nobody does.
#include "server/supervisor/share/share_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace bulkhead::share_group_test {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSlotBytes = 4096;
constexpr uint32_t kWindow = 4;
constexpr uint64_t kArenaBytes = (kWindow + 1) * kSlotBytes;

class Nobody final : public StreamObserver {
 public:
  void OnBatch(ReadyBatch) override {}
  void OnEvent(const v1::SampleEvent&) override {}
  void OnEnd() override {}
  void OnFailed(const absl::Status&) override {}
};

// Two members at their first batches.
class ShareGroupTest : public testing::Test {
 protected:
  ShareGroupTest() {
    auto logger = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_));
    logger->set_pattern("%v");
    spdlog::set_default_logger(std::move(logger));
    context_.loop = loop_;
    context_.copier = copier_;
    context_.window = kWindow;
    context_.pipeline = "photos";
    context_.new_stream_id = [] { return 99; };
    context_.dispatch = [] {};
    context_.add_stream = [this](std::shared_ptr<Stream> stream) { maker_ = std::move(stream); };
    context_.remove_stream = [this](uint64_t id) {
      if (maker_ != nullptr && maker_->id() == id) maker_.reset();
    };
    context_.make_room = [this](const MemoryBudget::Demand& demand) { asked_.push_back(demand); };
    // The copier may still call it when this is gone.
    context_.later = [loop = loop_](std::function<void()> work) { loop->Post(std::move(work)); };
    HasMemory(uint64_t{1} << 30);
    group_ = std::make_shared<ShareGroup>(context_, "");
    for (uint64_t id = 1; id <= 2; ++id) group_->Join(MakeMember(id), 0);
  }
  ~ShareGroupTest() override { spdlog::set_default_logger(before_); }

  void HasMemory(uint64_t bytes) {
    budget_ = MemoryBudget::Create({.budget_bytes = bytes}).value();
    context_.budget = budget_.get();
  }
  std::shared_ptr<Stream> MakeMember(uint64_t id) {
    StreamConfig config;
    config.arena = Arena::Create(kSlotBytes, 5).value();
    config.observer = std::make_shared<Nobody>();
    config.batch_at = [](uint64_t sequence) -> std::optional<v1::BatchHeader> {
      v1::BatchHeader header;
      header.set_sequence(sequence);
      header.set_first_position(16 * sequence);
      header.set_sample_count(16);
      return header;
    };
    members_.push_back(std::make_shared<Stream>(id, std::move(config), loop_, [] {}));
    return members_.back();
  }
  // The member begins its batch.
  ShareWindow::Answer Begin(uint64_t member, uint64_t sequence) {
    const v1::BatchHeader header = *members_[member - 1]->config().batch_at(sequence);
    return group_->Bring({member, header, "", /*slot=*/0, ++last_bringer_});
  }
  void RunPosted() {
    loop_->Stop();
    loop_->Run();
  }
  template <typename Condition>
  void Await(const Condition& condition) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (!condition() && absl::Now() < deadline) RunPosted();
    EXPECT_TRUE(condition());
  }
  // What was posted to the copier before has run.
  void AwaitCopier() {
    EXPECT_TRUE(copier_->Run([] {}, absl::Seconds(30)));
  }
  void AwaitMaker() {
    Await([this] { return maker_ != nullptr; });
  }

  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream log_;
  const std::shared_ptr<EventLoop> loop_ = EventLoop::Create().value();
  const std::shared_ptr<IoThread> copier_ = IoThread::Start().value();
  std::shared_ptr<MemoryBudget> budget_;
  ShareContext context_;
  std::shared_ptr<ShareGroup> group_;
  std::vector<std::shared_ptr<Stream>> members_;
  std::shared_ptr<Stream> maker_;
  std::vector<MemoryBudget::Demand> asked_;
  LeaseTable::WorkerId last_bringer_ = 0;
};

TEST_F(ShareGroupTest, WhenAMemberNeedsABatchThatAnotherNeedsAMakerBegins) {
  EXPECT_EQ(Begin(1, 0), ShareWindow::Answer::kWould);
  EXPECT_EQ(group_->arena_bytes(), kArenaBytes);
  EXPECT_EQ(budget_->Snapshot().arena_bytes(), kArenaBytes);
  AwaitMaker();
  EXPECT_TRUE(maker_->config().for_others);
  EXPECT_EQ(Begin(1, 1), ShareWindow::Answer::kMake);
  EXPECT_EQ(Begin(2, 1), ShareWindow::Answer::kWait);
  EXPECT_EQ(group_->WhyNothing(1), "");
}

TEST_F(ShareGroupTest, ItsMemoryIsFilledSlotBySlotSoThatCopiesGetInBetween) {
  Begin(1, 0);
  for (uint32_t slot = 0; slot + 1 < kWindow; ++slot) {
    AwaitCopier();
    absl::Notification copied;  // what is copied between this slot and the next one
    copier_->Post([&] { copied.WaitForNotification(); });
    RunPosted();
    EXPECT_EQ(maker_.get(), nullptr) << "after slot " << slot;
    copied.Notify();
    AwaitCopier();
  }
  AwaitMaker();
}

TEST_F(ShareGroupTest, OthersGetItsMemoryForTheAskingAndItDoesNotTakeItBackAtOnce) {
  EXPECT_FALSE(group_->GiveUpMaker());
  Begin(1, 0);
  AwaitMaker();
  EXPECT_TRUE(group_->GiveUpMaker());
  EXPECT_EQ(budget_->returning_bytes(), kArenaBytes);
  EXPECT_EQ(group_->arena_bytes(), 0u);
  Await([this] { return budget_->Snapshot().arena_bytes() == 0; });
  EXPECT_EQ(maker_.get(), nullptr);
  EXPECT_FALSE(group_->GiveUpMaker());
  EXPECT_EQ(Begin(2, 1), ShareWindow::Answer::kWould);
  EXPECT_EQ(group_->arena_bytes(), 0u);
  EXPECT_EQ(group_->WhyNothing(1),
            "its memory went to another stream; sharing is tried again after 10s");
  EXPECT_THAT(log_.str(), HasSubstr("pipeline photos: 2 streams share no batches for 10s: another "
                                    "stream needs the memory\n"));
}

TEST_F(ShareGroupTest, ItsMemoryCanBeTakenWhileItIsStillFilled) {
  Begin(1, 0);
  EXPECT_TRUE(group_->GiveUpMaker());
  Await([this] { return budget_->Snapshot().arena_bytes() == 0; });
  AwaitCopier();
  RunPosted();
  EXPECT_EQ(maker_.get(), nullptr);
}

TEST_F(ShareGroupTest, WithoutMemoryItAsksForSomeAndSaysSoOnce) {
  HasMemory(kSlotBytes);
  for (uint64_t sequence = 0; sequence < 50; ++sequence) {
    const MemoryClaim other = budget_->AdmitWorker(sequence).value();  // so the figures change
    for (const uint64_t member : {1, 2}) Begin(member, sequence);
  }
  ASSERT_FALSE(asked_.empty());
  EXPECT_EQ(asked_[0].slot_count * asked_[0].slot_bytes, kArenaBytes);
  const std::string log = log_.str();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_THAT(log, HasSubstr("pipeline photos: 2 streams could share batches, and do not: the "
                             "memory budget is exhausted: what streams share takes an arena of 5 "
                             "slots × 4KiB = 20KiB, but"));
  EXPECT_THAT(group_->WhyNothing(1), HasSubstr(", or lower --share-window"));
}

TEST_F(ShareGroupTest, SaysWhyAMemberSharesNothing) {
  for (uint64_t sequence = 0; sequence < 8; ++sequence) Begin(1, sequence);
  EXPECT_EQ(group_->WhyNothing(1), "the others of its group are more than 4 batches from it");
  group_->Leave(2);
  EXPECT_THAT(group_->WhyNothing(1), HasSubstr("no other open stream with `share` has its spec"));
}

}  // namespace
}  // namespace bulkhead::share_group_test
