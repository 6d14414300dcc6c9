#include "server/service/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/os/event_loop.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;

// An outbox whose writes the test carries out.
class OutboxTest : public testing::Test {
 protected:
  OutboxTest() {
    v1::TensorSchema& tensor = *transport_.schema.add_tensors();
    tensor.set_sample_bytes(100);
    transport_.schema.set_batch_size(10);
    transport_.schema.set_batch_bytes(1000);
    v1::Credits credits;
    credits.set_batches(2);
    outbox_.SetCredits(credits);
  }

  void Open() {
    v1::StreamResponse response;
    response.mutable_opened();
    outbox_.SetOpened(response, transport_);
    outbox_.Open();
  }
  void PutBatch(uint64_t sequence) {
    ReadyBatch batch;
    batch.header.set_sequence(sequence);
    batch.header.set_sample_count(10);
    batch.header.set_valid_count(9);
    batch.hold = std::make_shared<const SlotHold>(arena_, 0, [this](bool) { ++released_; });
    outbox_.Put(std::move(batch));
  }
  void PutEvent(const std::string& message) {
    v1::SampleEvent event;
    event.set_message(message);
    outbox_.Put(event);
  }
  void PutNote(const std::string& text) {
    v1::Note note;
    note.set_text(text);
    outbox_.PutNote(note);
  }
  // Ends writes until none is under way; what was written.
  std::vector<std::string> Written() {
    while (writing_) {
      writing_ = false;
      outbox_.OnWritten(true);
    }
    return std::exchange(written_, {});
  }

  void OnWrite(const grpc::ByteBuffer* message) {
    EXPECT_FALSE(writing_) << "one at a time";
    EXPECT_FALSE(end_.has_value()) << "nothing follows the end";
    writing_ = true;
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(message->Dump(&slices).ok());
    std::string bytes;
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    v1::StreamResponse response;
    EXPECT_TRUE(response.ParseFromString(bytes));
    if (response.has_opened()) written_.push_back("opened");
    if (response.has_note()) written_.push_back("note " + response.note().text());
    if (response.has_event()) written_.push_back(response.event().message());
    if (response.has_heartbeat()) written_.push_back("beat " + response.heartbeat().activity());
    if (response.has_part()) {
      written_.push_back("batch " + std::to_string(response.part().header().sequence()));
    }
  }

  const std::shared_ptr<Arena> arena_ = Arena::Create(4096, 1).value();
  Outbox::Transport transport_;
  bool writing_ = false;
  std::vector<std::string> written_;
  std::optional<absl::Status> end_;
  int released_ = 0;
  Outbox outbox_{{[this](const grpc::ByteBuffer* message) { OnWrite(message); },
                  [this](const absl::Status& status) { end_ = status; }}};
};

TEST_F(OutboxTest, KeepsTheOrderAndTheCredits) {
  Open();
  for (uint64_t i = 0; i < 3; ++i) PutBatch(i);
  PutEvent("behind them");
  EXPECT_THAT(Written(), ElementsAre("opened", "batch 0", "batch 1"));
  EXPECT_EQ(released_, 2) << "what was sent holds no slot";
  outbox_.Release(7);  // never sent
  EXPECT_THAT(Written(), ElementsAre());
  outbox_.Release(0);
  EXPECT_THAT(Written(), ElementsAre("batch 2", "behind them"));
}

TEST_F(OutboxTest, OneBatchGoesWhateverItsBytes) {
  v1::Credits credits;
  credits.set_batches(5);
  credits.set_bytes(1500);
  outbox_.SetCredits(credits);
  Open();
  for (uint64_t i = 0; i < 3; ++i) PutBatch(i);
  EXPECT_THAT(Written(), ElementsAre("opened", "batch 0"));
  outbox_.Release(0);
  EXPECT_THAT(Written(), ElementsAre("batch 1"));
}

TEST_F(OutboxTest, CreditsAreBoundedWhateverAClientAsksFor) {
  v1::Credits credits;
  credits.set_batches(UINT32_MAX);
  credits.set_bytes(UINT64_MAX);
  outbox_.SetCredits(credits);
  Open();
  for (uint64_t i = 0; i <= Outbox::kMostCreditBatches; ++i) PutBatch(i);
  EXPECT_EQ(Written().back(), absl::StrCat("batch ", Outbox::kMostCreditBatches - 1));
  outbox_.Release(0);
  EXPECT_THAT(Written(), ElementsAre(absl::StrCat("batch ", Outbox::kMostCreditBatches)));
}

TEST_F(OutboxTest, AClientIsUnreadWhileItHasAllItCanGetAndReleasesNothing) {
  const auto since = outbox_.unread_since();
  Open();
  PutBatch(0);
  Written();
  EXPECT_EQ(*since, 0) << "it has credit for another";
  PutBatch(1);
  const int64_t first = *since;
  EXPECT_GT(first, 0);
  Written();
  PutBatch(2);
  outbox_.Beat(absl::ZeroDuration());
  Written();
  EXPECT_EQ(*since, first);
  outbox_.Release(0);
  Written();
  EXPECT_GT(*since, first) << "it has batches 1 and 2, but took one";
  outbox_.ReleaseSlots(1);
  EXPECT_EQ(*since, 0);
}

TEST_F(OutboxTest, TellsWhoWaitsForWhom) {
  // What has risen since the last look: a wait that goes on rises with each look.
  v1::StreamStatus before;
  const auto waits_for = [&] {
    v1::StreamStatus now;
    outbox_.meter()->Describe(MonotonicNanos(), now);
    const bool workers = now.waiting_for_workers_seconds() > before.waiting_for_workers_seconds();
    const bool trainer = now.waiting_for_trainer_seconds() > before.waiting_for_trainer_seconds();
    before = now;
    return std::string(workers ? "workers " : "") + (trainer ? "trainer" : "");
  };
  EXPECT_EQ(waits_for(), "") << "it is not open";
  Open();
  Written();
  waits_for();
  EXPECT_EQ(waits_for(), "workers ");
  PutBatch(0);
  Written();
  waits_for();
  EXPECT_EQ(waits_for(), "workers ") << "it has credit for another";
  PutBatch(1);
  Written();
  waits_for();
  EXPECT_EQ(waits_for(), "trainer") << "it has all that it may hold";
  outbox_.Release(1);
  waits_for();
  EXPECT_EQ(waits_for(), "workers ");
  PutBatch(2);
  waits_for();
  EXPECT_EQ(waits_for(), "workers ") << "it is being written, and another may follow";
  PutBatch(3);
  waits_for();
  EXPECT_EQ(waits_for(), "trainer") << "it does not read";
  EXPECT_EQ(before.batch_gaps().counts_size(), kDurationBuckets);
}

TEST_F(OutboxTest, CountsSamplesAndGapsOfBatchesThatGoOut) {
  Open();
  for (uint64_t i = 0; i < 3; ++i) PutBatch(i);  // there is credit for two
  Written();
  v1::StreamStatus status;
  outbox_.meter()->Describe(MonotonicNanos(), status);
  EXPECT_EQ(status.samples_sent(), 18u) << "genuine ones";
  const auto& counts = status.batch_gaps().counts();
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), uint64_t{0}), 1u);
}

TEST_F(OutboxTest, AHeartbeatComesWhereNothingElseDoes) {
  Open();
  Written();
  EXPECT_TRUE(outbox_.Beat(absl::ZeroDuration()));
  EXPECT_THAT(Written(), ElementsAre()) << "something was sent since the last one";
  outbox_.SetActivity("worker 0 reads");
  EXPECT_TRUE(outbox_.Beat(absl::ZeroDuration()));
  EXPECT_THAT(Written(), ElementsAre("beat worker 0 reads"));
  for (uint64_t i = 0; i < 3; ++i) PutBatch(i);
  EXPECT_THAT(Written(), ElementsAre("batch 0", "batch 1"));
  outbox_.Beat(absl::ZeroDuration());
  outbox_.Beat(absl::ZeroDuration());
  EXPECT_THAT(Written(), ElementsAre("beat ")) << "instead of a batch without credit";
}

TEST_F(OutboxTest, NotesDoNotWaitForCreditsButForTheOpening) {
  PutNote("early");
  EXPECT_THAT(Written(), ElementsAre());
  Open();
  EXPECT_THAT(Written(), ElementsAre("opened", "note early"));
  for (uint64_t i = 0; i < 3; ++i) PutBatch(i);
  EXPECT_THAT(Written(), ElementsAre("batch 0", "batch 1"));
  PutNote("in time");
  EXPECT_THAT(Written(), ElementsAre("note in time"));
}

TEST_F(OutboxTest, AClientThatDoesNotReadGetsTheFirstNotesAndTheNumberOfOthers) {
  Open();  // a write that does not end
  for (size_t i = 0; i < Outbox::kMostNotes + 3; ++i) PutNote(std::to_string(i));
  const std::vector<std::string> written = Written();
  ASSERT_EQ(written.size(), Outbox::kMostNotes + 2);
  EXPECT_EQ(written[Outbox::kMostNotes], "note " + std::to_string(Outbox::kMostNotes - 1));
  EXPECT_EQ(written.back().substr(0, 25), "note 3 lines were left ou");
}

TEST_F(OutboxTest, TheEndComesBehindTheNotes) {
  Open();
  PutNote("last words");
  outbox_.Finish(absl::OkStatus());
  EXPECT_THAT(Written(), ElementsAre("opened", "note last words"));
  EXPECT_TRUE(end_.has_value());
}

TEST_F(OutboxTest, EndsBehindWhatIsQueued) {
  Open();
  for (uint64_t i = 0; i < 3; ++i) PutBatch(i);
  outbox_.Finish(absl::DataLossError("damaged"));
  outbox_.Finish(absl::OkStatus());  // the first one counts
  Written();
  EXPECT_FALSE(end_.has_value()) << "a batch waits for its credit";
  outbox_.Release(1);
  Written();
  EXPECT_EQ(end_, absl::DataLossError("damaged"));
  EXPECT_FALSE(outbox_.Beat(absl::ZeroDuration()));
  PutEvent("too late");
  EXPECT_THAT(Written(), ElementsAre());
}

TEST_F(OutboxTest, WhoIsGoneGetsNothingMore) {
  Open();
  for (uint64_t i = 0; i < 3; ++i) PutBatch(i);
  outbox_.Abandon(absl::CancelledError("gone"));
  EXPECT_TRUE(outbox_.gone());
  EXPECT_FALSE(end_.has_value()) << "a write is under way";
  EXPECT_THAT(Written(), ElementsAre("opened"));
  EXPECT_EQ(end_, absl::CancelledError("gone"));
  EXPECT_EQ(released_, 3);
}

TEST_F(OutboxTest, AnEvictionOverridesAnEndThatWaits) {
  Open();
  for (uint64_t i = 0; i < 3; ++i) PutBatch(i);
  outbox_.Finish(absl::OkStatus());
  Written();
  outbox_.Evict(absl::UnavailableError("idle"));
  EXPECT_EQ(end_, absl::UnavailableError("idle"));
}

TEST_F(OutboxTest, AFailedWriteIsTheEnd) {
  Open();
  PutBatch(0);
  writing_ = false;
  outbox_.OnWritten(false);
  EXPECT_TRUE(outbox_.gone());
  EXPECT_EQ(end_->code(), absl::StatusCode::kCancelled);
}

TEST_F(OutboxTest, AClientThatAsksForNothingWaitsForItsTrainer) {
  outbox_.ExpectAssignments();
  Open();
  EXPECT_NE(*outbox_.unread_since(), 0);
  v1::Assign assign;
  assign.add_sequences(4);
  EXPECT_TRUE(outbox_.Assign(assign).ok());
  EXPECT_EQ(*outbox_.unread_since(), 0);
}

TEST_F(OutboxTest, OnlyAClientThatSaidSoAsksForBatches) {
  Open();
  EXPECT_EQ(outbox_.Assign({}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace bulkhead
