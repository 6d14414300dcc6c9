#include "client/cpp/internal/stream/inbox.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bulkhead/error.h"

namespace bulkhead::client_internal {
namespace {

// An inbox that is open, and what it gave back.
class InboxTest : public testing::Test {
 protected:
  static StreamConfig Config() {
    StreamConfig config;
    config.target = "here";
    config.first_sequence = 100;
    config.held_deadline = absl::Seconds(20);
    return config;
  }

  void Open(const Inbox::Limits& limits) { inbox_.Open(limits, v1::Cursor()); }

  void Deliver(uint64_t sequence, uint64_t bytes = 10) {
    inbox_.Begin(sequence, bytes);
    auto batch = std::make_unique<BatchData>();
    batch->header.set_sequence(config_.first_sequence + sequence);
    batch->cursor.set_consumed(sequence + 1);
    inbox_.Put(std::move(batch), sequence + 1);
  }

  absl::StatusOr<std::optional<Batch>> Next() {
    return inbox_.Next(absl::ZeroDuration(), absl::Seconds(3));
  }

  const StreamConfig config_ = Config();
  std::vector<uint64_t> given_back_;
  Inbox inbox_{config_, [this](uint64_t through) { given_back_.push_back(through); }};
};

TEST_F(InboxTest, GivesCreditsBackInTheOrderOfArrival) {
  Open({3, 1000, 10, false});
  for (const uint64_t sequence : {0, 1, 2}) Deliver(sequence);
  inbox_.Release(1);
  EXPECT_TRUE(given_back_.empty());
  inbox_.Release(0);
  inbox_.Release(2);
  EXPECT_EQ(given_back_, (std::vector<uint64_t>{1, 2}));
}

TEST_F(InboxTest, SlotsHaveNoCreditsToGiveBack) {
  Open({1, 0, 10, true});
  Deliver(0);
  ASSERT_TRUE(Next().ok());
  LoaderStats stats;
  inbox_.AddTo(&stats);
  EXPECT_EQ(stats.held_slots, 1u);
  inbox_.Release(0);
  inbox_.AddTo(&stats);
  EXPECT_EQ(stats.held_slots, 0u);
  EXPECT_TRUE(given_back_.empty());
}

TEST_F(InboxTest, SaysThatTheProgramHoldsAllThatMayBeOut) {
  Open({4, 25, 10, false});  // a third batch does not fit
  for (const uint64_t sequence : {0, 1}) Deliver(sequence);
  ASSERT_TRUE(Next().ok() && Next().ok());
  const auto nothing = Next();
  EXPECT_EQ(ErrorReason(nothing.status()), "SLOTS_EXHAUSTED");
  EXPECT_NE(nothing.status().message().find("the oldest (100)"), std::string::npos);
  inbox_.Release(0);
  EXPECT_EQ(ErrorReason(Next().status()), "DEADLINE_EXCEEDED");
}

TEST_F(InboxTest, ALateBatchIsExplainedByWhatTheWorkersDo) {
  Open({4, 1000, 10, false});
  inbox_.SetActivity("reading");
  const auto late = Next();
  EXPECT_EQ(late.status().message(),
            "no batch came from the service at here within 3s; activity of the workers: reading");
  Deliver(0);
  ASSERT_TRUE(Next().ok());
  inbox_.Release(0);
  EXPECT_EQ(Next().status().message(), "no batch came from the service at here within 3s");
}

TEST_F(InboxTest, RefusesMoreThanThereIsCreditFor) {
  Open({2, 15, 10, false});
  EXPECT_TRUE(inbox_.MayBegin().ok());
  inbox_.Begin(0, 20);
  EXPECT_TRUE(inbox_.CheckCredits().ok()) << "one batch is always allowed";
  EXPECT_TRUE(inbox_.MayBegin().ok());
  inbox_.Begin(1, 1);
  EXPECT_EQ(ErrorReason(inbox_.CheckCredits()), "PROTOCOL_VIOLATION");
  EXPECT_EQ(ErrorReason(inbox_.MayBegin()), "PROTOCOL_VIOLATION");
}

TEST_F(InboxTest, TheFirstErrorStaysAndComesAfterWhatArrived) {
  Open({4, 1000, 10, false});
  Deliver(0);
  inbox_.Fail(absl::DataLossError("first"));
  EXPECT_TRUE(inbox_.given_up());
  inbox_.End(absl::UnavailableError("second"));
  const auto batch = Next();
  ASSERT_TRUE(batch.ok() && batch->has_value());
  EXPECT_EQ(Next().status(), absl::DataLossError("first"));
}

TEST_F(InboxTest, GoesOnBehindWhatArrivedWhole) {
  v1::Cursor quarantine;
  quarantine.add_quarantined("a@1");
  Open({4, 1000, 10, false});
  EXPECT_EQ(inbox_.next_sequence(), 100u);
  Deliver(0);
  inbox_.Begin(1, 10);
  inbox_.SetQuarantined(quarantine);
  EXPECT_EQ(inbox_.next_sequence(), 101u);
  EXPECT_EQ(inbox_.resume_cursor().consumed(), 1u);
  EXPECT_EQ(inbox_.resume_cursor().quarantined(0), "a@1");
}

TEST_F(InboxTest, TellsTheNewestProgressBeforeItIsOpen) {
  LoaderProgress progress;
  for (const uint64_t done : {1, 2}) {
    progress.files_done = done;
    inbox_.Tell(progress, std::to_string(done));
  }
  Open({4, 1000, 10, false});
  std::vector<uint64_t> told;
  const auto note = [&](const LoaderProgress& news) { told.push_back(news.files_done); };
  EXPECT_TRUE(inbox_.WaitOpened(absl::Seconds(20), note).ok());
  EXPECT_EQ(told, std::vector<uint64_t>{2});
  EXPECT_GT(inbox_.preparing_time(), absl::ZeroDuration());
}

TEST_F(InboxTest, ClosingEndsAWait) {
  Open({4, 1000, 10, false});
  absl::StatusOr<std::optional<Batch>> result = std::nullopt;
  std::thread waiting([&] { result = inbox_.Next(absl::Seconds(20), absl::Seconds(20)); });
  EXPECT_TRUE(inbox_.Close().empty());
  waiting.join();
  EXPECT_EQ(ErrorReason(result.status()), "LOADER_CLOSED");
  Deliver(0);  // it comes too late
  EXPECT_TRUE(inbox_.Close().empty());
}

TEST_F(InboxTest, ClosingHandsOutWhatNobodyTook) {
  Open({4, 1000, 10, false});
  Deliver(0);
  EXPECT_EQ(inbox_.Close().size(), 1u);
  EXPECT_EQ(ErrorReason(Next().status()), "LOADER_CLOSED");
}

}  // namespace
}  // namespace bulkhead::client_internal
