#include "server/supervisor/leases/stream.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead::stream_test {
namespace {

constexpr LeaseTable::WorkerId kWorker = 1;

class Recorder final : public StreamObserver {
 public:
  void OnBatch(ReadyBatch batch) override { headers.push_back(batch.header); }
  void OnEvent(const v1::SampleEvent& event) override {
    ++events;
    last_event = event;
    headers_before_event = headers.size();
  }
  void OnEnd() override { ended = true; }
  void OnFailed(const absl::Status& status) override { failure = status; }

  std::vector<uint64_t> Sequences() const {
    std::vector<uint64_t> sequences;
    for (const auto& header : headers) sequences.push_back(header.sequence());
    return sequences;
  }
  std::vector<uint64_t> Left() const {
    std::vector<uint64_t> left;
    for (const auto& header : headers) left.push_back(header.batches_left_in_epoch());
    return left;
  }
  std::vector<uint64_t> Substitutions() const {
    std::vector<uint64_t> counts;
    for (const auto& header : headers) counts.push_back(header.substitutions());
    return counts;
  }

  std::vector<v1::BatchHeader> headers;
  int events = 0;
  v1::SampleEvent last_event;
  size_t headers_before_event = 0;
  bool ended = false;
  absl::Status failure;
};

// A stream of two epochs of `per_epoch` batches of one sample, whose leases the test reports.
class StreamTest : public testing::Test {
 protected:
  void Open(bool ordered, uint64_t per_epoch, std::vector<uint32_t> completed = {},
            v1::ErrorAction action = v1::ERROR_ACTION_SUBSTITUTE, QuarantineSet quarantined = {}) {
    StreamConfig config;
    config.binding.set_error_action(action);
    config.quarantined = std::move(quarantined);
    config.on_quarantined = [this](const v1::QuarantinedRecord& record) {
      remembered_.push_back(record);
    };
    config.arena = arena_;
    config.ordered = ordered;
    config.completed = std::move(completed);
    config.assignments = assignments_;
    config.code = code_;
    config.max_substitutions_per_epoch = 100;
    config.observer = recorder_;
    config.binding.set_whole_batches(whole_batches_);
    config.for_others = for_others_;
    config.binding.mutable_schema()->set_batch_size(samples_);
    config.tracer = tracer_;
    config.batch_at = [per_epoch,
                       samples = samples_](uint64_t sequence) -> std::optional<v1::BatchHeader> {
      const uint64_t epoch = sequence / per_epoch;
      if (epoch >= 2) return std::nullopt;
      const uint64_t left = per_epoch - 1 - sequence % per_epoch;
      v1::BatchHeader header;
      header.set_sequence(sequence);
      header.set_epoch(epoch);
      header.set_sample_count(samples);
      header.set_first_position(sequence % per_epoch);
      header.set_batches_left_in_epoch(left);
      header.set_next_epoch(left == 0 ? epoch + 1 : epoch);
      return header;
    };
    stream_ = std::make_shared<Stream>(1, std::move(config), loop_, [] {});
    stream_->BeginBatches();
    TakeLeases();
  }

  void TakeLeases() {
    while (const auto lease = stream_->Assign(kWorker)) leases_.push_back(*lease);
  }

  // Reports the lease at `position` of `epoch`.
  void Finish(uint64_t epoch, uint64_t position, int substitutions = 0, bool fail = false) {
    TakeLeases();
    for (const internal::v1::Lease& lease : leases_) {
      if (lease.epoch() != epoch || lease.first_position() != position) continue;
      if (fail) {
        internal::v1::LeaseFailed failed;
        failed.set_lease_id(lease.lease_id());
        EXPECT_TRUE(stream_->FailLease(failed, kWorker));
        return;
      }
      internal::v1::LeaseDone done;
      done.set_lease_id(lease.lease_id());
      for (int i = 0; i < substitutions; ++i) done.add_substitutions()->set_position(position);
      EXPECT_TRUE(stream_->Complete(done, kWorker).has_value());
      return;
    }
    ADD_FAILURE() << "nobody was given position " << position << " of epoch " << epoch;
  }

  const std::shared_ptr<EventLoop> loop_ = EventLoop::Create().value();
  const std::shared_ptr<Tracer> tracer_ = std::make_shared<Tracer>(loop_);
  // Asks for batches, and gives the workers what the stream then begins.
  void Ask(std::vector<uint64_t> sequences, bool last = false) {
    v1::Assign assign;
    assign.mutable_sequences()->Assign(sequences.begin(), sequences.end());
    assign.set_last(last);
    EXPECT_TRUE(assignments_->Add(assign));
    stream_->BeginBatches();
    TakeLeases();
  }

  // Of the arena, that have memory.
  int64_t ArenaBlocks() const {
    struct stat facts;
    EXPECT_EQ(fstat(arena_->fd(), &facts), 0);
    return facts.st_blocks;
  }

  uint64_t samples_ = 1;  // of a batch
  std::shared_ptr<Assignments> assignments_;
  bool whole_batches_ = false;
  bool for_others_ = false;
  std::vector<v1::CodeFile> code_;  // that the client knows
  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  std::shared_ptr<Stream> stream_;
  std::vector<internal::v1::Lease> leases_;
  std::vector<v1::QuarantinedRecord> remembered_;
  const std::shared_ptr<Arena> arena_ = Arena::Create(4096, 8).value();
};

using Numbers = std::vector<uint64_t>;

TEST_F(StreamTest, DeliversInOrder) {
  Open(/*ordered=*/true, 3);
  Finish(0, 2);
  Finish(0, 1);
  EXPECT_EQ(recorder_->Sequences(), Numbers());
  Finish(0, 0);
  EXPECT_EQ(recorder_->Sequences(), (Numbers{0, 1, 2}));
  EXPECT_EQ(recorder_->Left(), (Numbers{2, 1, 0}));
}

TEST_F(StreamTest, WithoutOrderCountsWhatIsLeftAsItIsDelivered) {
  Open(/*ordered=*/false, 3);
  Finish(1, 0);
  Finish(0, 2);
  Finish(0, 0);
  EXPECT_EQ(recorder_->Sequences(), (Numbers{2, 0}));
  Finish(0, 1);
  EXPECT_EQ(recorder_->Sequences(), (Numbers{2, 0, 1, 3}));
  EXPECT_EQ(recorder_->Left(), (Numbers{2, 1, 0, 2}));
}

TEST_F(StreamTest, WithoutOrderNothingIsDeliveredTwice) {
  Open(/*ordered=*/false, 4, {1, 3});
  Finish(0, 2);
  Finish(0, 0);
  Finish(1, 3);
  EXPECT_EQ(recorder_->Sequences(), (Numbers{2, 0, 7}));
  EXPECT_EQ(recorder_->Left(), (Numbers{1, 0, 3}));
  for (const uint64_t position : {1, 0, 2}) Finish(1, position);
  EXPECT_EQ(recorder_->Sequences(), (Numbers{2, 0, 7, 5, 4, 6}));
  EXPECT_EQ(recorder_->Left(), (Numbers{1, 0, 3, 2, 1, 0}));
}

TEST_F(StreamTest, WithoutOrderSubstitutionsAddUpAsTheyAreDelivered) {
  Open(/*ordered=*/false, 3);
  Finish(0, 2, 2);
  Finish(0, 0, 1);
  Finish(0, 1, 1);
  Finish(1, 0, 1);
  // Behind the last of an epoch the next one begins, with nothing substituted.
  EXPECT_EQ(recorder_->Substitutions(), (Numbers{2, 3, 0, 1}));
  EXPECT_EQ(recorder_->events, 5);
}

TEST_F(StreamTest, WithoutOrderTheGoodIsDeliveredBeforeTheFailure) {
  Open(/*ordered=*/false, 3);
  Finish(0, 1, 0, /*fail=*/true);
  Finish(0, 2);
  EXPECT_EQ(recorder_->Sequences(), (Numbers{2}));
  EXPECT_TRUE(recorder_->failure.ok());
  Finish(0, 0);
  EXPECT_EQ(recorder_->Sequences(), (Numbers{2, 0}));
  EXPECT_FALSE(recorder_->failure.ok());
}

TEST_F(StreamTest, GoesOnWithoutTheSlotsOfAWorkerThatDoesNotEnd) {
  Open(/*ordered=*/true, 3);
  EXPECT_EQ(ArenaBlocks(), 0);
  stream_->WriteOff(kWorker + 1);
  EXPECT_EQ(ArenaBlocks(), 0) << "it had no lease";
  stream_->WriteOff(kWorker);
  EXPECT_FALSE(stream_->finished());
  EXPECT_GT(ArenaBlocks(), 0) << "this process pays for the slot in reserve";
}

TEST_F(StreamTest, OneThatMakesBatchesForOthersDoesNotSinceTheyWait) {
  for_others_ = true;
  Open(/*ordered=*/true, 3);
  stream_->WriteOff(kWorker + 1);
  EXPECT_FALSE(stream_->finished()) << "it had no lease";
  stream_->WriteOff(kWorker);
  EXPECT_TRUE(stream_->finished());
  EXPECT_EQ(GetErrorInfo(recorder_->failure)->reason, reason::kWorkerStuck);
}

TEST_F(StreamTest, TheNextBatchTellsOfCodeThatWasLoadedLater) {
  code_.emplace_back().set_name("head.py");
  code_[0].set_digest("01");
  Open(/*ordered=*/true, 3);
  stream_->NoteCode("head.py", "01");
  Finish(0, 0);
  Finish(0, 2);
  stream_->NoteCode("late.py", "02");
  stream_->NoteCode("late.py", "02");
  Finish(0, 1);
  Finish(1, 0);
  std::vector<std::vector<std::string>> told;
  for (const auto& header : recorder_->headers) {
    told.emplace_back();
    for (const auto& file : header.code()) {
      EXPECT_TRUE(file.later());
      told.back().push_back(absl::StrCat(file.name(), " ", file.digest()));
    }
  }
  EXPECT_EQ(told, (std::vector<std::vector<std::string>>{{}, {"late.py 02"}, {}, {}}));
  EXPECT_TRUE(recorder_->failure.ok());
}

TEST_F(StreamTest, CodeThatIsNotWhatTheClientKnowsEndsTheStream) {
  code_.emplace_back().set_name("late.py");
  code_[0].set_digest("01");
  Open(/*ordered=*/true, 3);
  Finish(0, 0);
  stream_->NoteCode("late.py", "02");
  EXPECT_EQ(GetErrorInfo(recorder_->failure)->reason, reason::kCodeChanged);
  EXPECT_EQ(GetErrorInfo(recorder_->failure)->metadata["file"], "late.py");
  EXPECT_EQ(recorder_->Sequences(), Numbers{0});
}

TEST_F(StreamTest, TellsTheLeaseAtWhichAWorkerDied) {
  Open(/*ordered=*/true, 3);
  const auto death = stream_->NoteDeath(leases_[2].lease_id(), kWorker);
  ASSERT_TRUE(death.has_value());
  EXPECT_EQ(death->deaths, 1);
  EXPECT_EQ(death->lease.first_position() + death->lease.first_sample(), 2u);
  EXPECT_EQ(death->lease.count(), 1u);
  EXPECT_EQ(death->lease.epoch(), 0u);
}

std::string DigestOf(std::initializer_list<const char*> records) {
  QuarantineSet set;
  for (const char* record : records) EXPECT_TRUE(set.Add(record).ok());
  return set.Digest();
}

TEST_F(StreamTest, AQuarantinedRecordIsInForceFromTheFirstUndeliveredBatch) {
  Open(/*ordered=*/true, 4);
  Finish(0, 0);
  Finish(0, 2);  // made with the old set, and not delivered
  leases_.clear();
  ASSERT_TRUE(stream_->Quarantine("a@1", "crashed in stages[0] decode_image", 3));
  EXPECT_EQ(recorder_->last_event.kind(), v1::SampleEvent::KIND_QUARANTINED);
  EXPECT_EQ(recorder_->last_event.record(), "a@1");
  EXPECT_NE(recorder_->last_event.message().find("decode_image"), std::string::npos);
  EXPECT_EQ(recorder_->headers_before_event, 1u);
  ASSERT_EQ(remembered_.size(), 1u);
  EXPECT_EQ(remembered_[0].record(), "a@1");
  EXPECT_EQ(remembered_[0].deaths(), 3);
  EXPECT_EQ(remembered_[0].reason(), "crashed in stages[0] decode_image");
  EXPECT_GT(remembered_[0].time().seconds(), 0);
  ASSERT_EQ(stream_->quarantine().quarantined_size(), 1);
  EXPECT_EQ(stream_->quarantine().quarantined(0), "a@1");
  EXPECT_EQ(stream_->quarantine().stream_id(), 1);

  Finish(0, 2);  // is done anew
  stream_->WorkerGone(kWorker);
  leases_.clear();
  Finish(0, 1);
  Finish(0, 3);
  EXPECT_EQ(recorder_->Sequences(), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(recorder_->headers[0].quarantine_digest(), "");
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(recorder_->headers[i].quarantine_digest(), DigestOf({"a@1"})) << i;
  }
}

TEST_F(StreamTest, TheSetOfTheOpeningIsInForceFromTheFirstBatch) {
  QuarantineSet set;
  ASSERT_TRUE(set.Add("b@2").ok());
  Open(/*ordered=*/true, 3, {}, v1::ERROR_ACTION_SUBSTITUTE, set);
  Finish(0, 0);
  EXPECT_EQ(recorder_->headers[0].quarantine_digest(), DigestOf({"b@2"}));
  EXPECT_FALSE(stream_->Quarantine("b@2", "again", 3));  // known
  EXPECT_EQ(recorder_->events, 0);
  EXPECT_TRUE(stream_->Quarantine("a@1", "crashed", 3));
  EXPECT_EQ(stream_->quarantine().quarantined_size(), 2);
}

TEST_F(StreamTest, UnderFailAPoisonSampleIsAnErrorThatNamesRecordAndCommand) {
  Open(/*ordered=*/true, 3, {}, v1::ERROR_ACTION_FAIL);
  EXPECT_FALSE(stream_->Quarantine("it's.jpg@5", "crashed in stages[0] decode_image", 3));
  EXPECT_EQ(recorder_->failure.code(), absl::StatusCode::kFailedPrecondition);
  const auto info = GetErrorInfo(recorder_->failure);
  EXPECT_EQ(info->reason, "POISON_SAMPLE");
  EXPECT_EQ(info->metadata.at("record"), "it's.jpg@5");
  EXPECT_EQ(info->metadata.at("file"), "it's.jpg");
  EXPECT_EQ(info->metadata.at("offset"), "5");
  EXPECT_EQ(info->metadata.at("deaths"), "3");
  EXPECT_EQ(info->metadata.at("cause"), "crashed in stages[0] decode_image");
  EXPECT_EQ(info->metadata.at("command"), "bulkhead quarantine add 'it'\\''s.jpg@5'");
  EXPECT_EQ(recorder_->events, 0);
  EXPECT_TRUE(remembered_.empty());
}

TEST_F(StreamTest, APipelineWithBatchStagesHasOneLeaseABatch) {
  samples_ = 100;
  Open(/*ordered=*/true, 3);
  EXPECT_EQ(leases_.front().count(), 16u);
  leases_.clear();
  whole_batches_ = true;
  Open(/*ordered=*/true, 3);
  EXPECT_EQ(leases_.size(), 6u);
  EXPECT_EQ(leases_.front().first_sample(), 0u);
  EXPECT_EQ(leases_.front().count(), 100u);
  EXPECT_FALSE(leases_.front().one_thread());
}

TEST_F(StreamTest, ASuspectIsDoneByOneThread) {
  samples_ = 100;
  whole_batches_ = true;
  Open(/*ordered=*/true, 3);
  const internal::v1::Lease lease = leases_.front();
  ASSERT_TRUE(stream_->NoteDeath(lease.lease_id(), kWorker, false, true).has_value());
  EXPECT_EQ(stream_->WorkerGone(kWorker), leases_.size());
  ASSERT_TRUE(stream_->work().suspect);
  const auto again = stream_->Assign(kWorker + 1, /*suspect=*/true);
  EXPECT_EQ(again->lease_id(), lease.lease_id());
  EXPECT_TRUE(again->one_thread());
}

TEST_F(StreamTest, AFullQuarantineIsAnError) {
  QuarantineSet set;
  for (size_t i = 0; i < QuarantineSet::kMaxRecords; ++i) {
    ASSERT_TRUE(set.Add(absl::StrCat("x@", i)).ok());
  }
  Open(/*ordered=*/true, 3, {}, v1::ERROR_ACTION_SUBSTITUTE, set);
  EXPECT_FALSE(stream_->Quarantine("a@1", "crashed", 3));
  EXPECT_EQ(GetErrorInfo(recorder_->failure)->reason, "QUARANTINE_FULL");
  EXPECT_TRUE(remembered_.empty());
}

TEST_F(StreamTest, IsWithoutABatchWhileOneIsBeingMade) {
  Open(/*ordered=*/true, 1);
  const int64_t in_a_minute = MonotonicNanos() + absl::ToInt64Nanoseconds(absl::Minutes(1));
  EXPECT_GE(stream_->WithoutBatch(in_a_minute), absl::Seconds(30));
  Finish(0, 0);
  Finish(1, 0);
  EXPECT_EQ(stream_->WithoutBatch(in_a_minute), absl::ZeroDuration());
}

// The moments of a trace, as text.
std::vector<std::string> MomentsOf(TraceLog& log, uint64_t trace) {
  std::vector<std::string> texts;
  const auto part = log.Take(trace);
  if (!part.has_value()) return texts;
  for (const v1::TraceMoment& moment : part->moments()) {
    const bool of_lease = moment.lease() != 0;
    texts.push_back(absl::StrCat(v1::TraceMoment::Kind_Name(moment.kind()), " ",
                                 of_lease ? moment.lease() : moment.batch()));
  }
  return texts;
}

TEST_F(StreamTest, ATraceHasWhatIsUnderWayAndThenWhatHappens) {
  Open(/*ordered=*/true, /*per_epoch=*/2);
  const uint64_t trace = tracer_->log()->Begin("", MonotonicNanos()).value();
  tracer_->Take(trace, absl::Seconds(60));
  const std::vector<std::string> open = MomentsOf(*tracer_->log(), trace);
  EXPECT_EQ(open, (std::vector<std::string>{"KIND_BATCH_BEGUN 0", "KIND_LEASE_GIVEN 1",
                                            "KIND_BATCH_BEGUN 1", "KIND_LEASE_GIVEN 2",
                                            "KIND_BATCH_BEGUN 2", "KIND_LEASE_GIVEN 3",
                                            "KIND_BATCH_BEGUN 3", "KIND_LEASE_GIVEN 4"}));
  Finish(0, 1);
  EXPECT_EQ(MomentsOf(*tracer_->log(), trace), (std::vector<std::string>{"KIND_LEASE_DONE 2"}));
  Finish(0, 0);
  EXPECT_EQ(
      MomentsOf(*tracer_->log(), trace),
      (std::vector<std::string>{"KIND_LEASE_DONE 1", "KIND_BATCH_READY 0", "KIND_BATCH_READY 1"}));
  Finish(1, 0, 0, /*fail=*/true);
  EXPECT_EQ(MomentsOf(*tracer_->log(), trace)[0], "KIND_LEASE_FAILED 3");
}

TEST_F(StreamTest, IsNoPartOfATraceOfAnotherStream) {
  Open(/*ordered=*/true, /*per_epoch=*/2);
  const uint64_t trace = tracer_->log()->Begin("another", MonotonicNanos()).value();
  tracer_->Take(trace, absl::Seconds(60));
  Finish(0, 0);
  const v1::TraceResponse part = tracer_->log()->Take(trace).value();
  EXPECT_EQ(part.moments_size(), 0);
  EXPECT_EQ(part.streams_size(), 0);
}

TEST_F(StreamTest, MakesOnlyTheBatchesThatItIsAskedFor) {
  assignments_ = std::make_shared<Assignments>();
  Open(/*ordered=*/true, /*per_epoch=*/4);
  EXPECT_TRUE(leases_.empty());
  Ask({5, 1});
  Finish(1, 1);
  EXPECT_EQ(recorder_->Sequences(), std::vector<uint64_t>{}) << "batch 1 goes first";
  Finish(0, 1);
  EXPECT_EQ(recorder_->Sequences(), (std::vector<uint64_t>{1, 5}));
  EXPECT_FALSE(recorder_->ended);
}

TEST_F(StreamTest, MakesAnEarlierBatchAndTheSameOneAgain) {
  assignments_ = std::make_shared<Assignments>();
  Open(/*ordered=*/true, /*per_epoch=*/4);
  Ask({3});
  Finish(0, 3);
  leases_.clear();
  Ask({0, 3});
  Finish(0, 0);
  Finish(0, 3);
  EXPECT_EQ(recorder_->Sequences(), (std::vector<uint64_t>{3, 0, 3}));
}

TEST_F(StreamTest, ABatchBehindTheLastIsIgnored) {
  assignments_ = std::make_shared<Assignments>();
  Open(/*ordered=*/true, /*per_epoch=*/1);
  Ask({7, 1});
  Finish(1, 0);
  EXPECT_EQ(recorder_->Sequences(), (std::vector<uint64_t>{1}));
  EXPECT_FALSE(recorder_->ended);
}

TEST_F(StreamTest, EndsWhenWhatItWasAskedForLastIsMade) {
  assignments_ = std::make_shared<Assignments>();
  Open(/*ordered=*/true, /*per_epoch=*/4);
  Ask({0, 2}, /*last=*/true);
  Finish(0, 0);
  EXPECT_FALSE(recorder_->ended);
  Finish(0, 2);
  EXPECT_EQ(recorder_->Sequences(), (std::vector<uint64_t>{0, 2}));
  EXPECT_TRUE(recorder_->ended);
}

TEST_F(StreamTest, EndsWhenNothingMoreIsAskedFor) {
  assignments_ = std::make_shared<Assignments>();
  Open(/*ordered=*/true, /*per_epoch=*/4);
  Ask({1});
  Finish(0, 1);
  EXPECT_FALSE(recorder_->ended);
  Ask({}, /*last=*/true);
  EXPECT_TRUE(recorder_->ended);
}

TEST_F(StreamTest, WithAssignmentsTheClientCountsTheSubstitutions) {
  assignments_ = std::make_shared<Assignments>();
  Open(/*ordered=*/true, /*per_epoch=*/4);
  Ask({0, 2});
  Finish(0, 0, /*substitutions=*/101);  // one more than an epoch may have
  Finish(0, 2, /*substitutions=*/3);
  ASSERT_EQ(recorder_->headers.size(), 2u);
  EXPECT_EQ(recorder_->headers[0].substituted(), 101u);
  EXPECT_EQ(recorder_->headers[1].substituted(), 3u);
  EXPECT_EQ(recorder_->headers[1].substitutions(), 0u);
}

}  // namespace
}  // namespace bulkhead::stream_test
