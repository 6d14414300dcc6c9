#include "server/supervisor/leases/stream_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What was asked of the fetcher, and its answers.
struct Fetches {
  struct Request {
    std::string key;
    InputFetcher::Trust trust = internal::v1::FetchParts::TRUST_UNSPECIFIED;
    InputFetcher::Done done;
  };
  std::vector<Request> requests;  // by number - 1
  std::vector<uint64_t> released;

  InputFetcher Fetcher() {
    return {[this](const InputFetcher::Parts& parts, InputFetcher::Trust trust,
                   InputFetcher::Done done) {
              requests.push_back({parts.empty() ? "" : parts[0].key(), trust, std::move(done)});
              return requests.size();
            },
            [this](uint64_t id) { released.push_back(id); }};
  }
};

class StreamInputsTest : public testing::Test {
 protected:
  void Add(uint64_t sequence) {
    v1::BatchHeader header;
    header.set_sequence(sequence);
    header.set_epoch(3);
    header.set_first_position(10 * sequence);
    header.set_sample_count(10);
    inputs_->Add(header);
  }
  void Survey(uint64_t sequence, uint64_t bytes = 100) {
    internal::v1::Surveyed surveyed;
    surveyed.set_sequence(sequence);
    internal::v1::ObjectParts& object = *surveyed.add_objects();
    object.set_key("key");
    object.add_bounds(0);
    object.add_bounds(bytes);
    inputs_->OnSurveyed(surveyed);
  }
  static internal::v1::Lease LeaseOf(uint64_t sequence) {
    internal::v1::Lease lease;
    lease.set_epoch(3);
    lease.set_first_position(10 * sequence);
    return lease;
  }
  // What a worker is told of bytes that were fetched again: "key 10 20".
  std::vector<std::string> Again(uint64_t sequence) {
    internal::v1::Lease lease = LeaseOf(sequence);
    inputs_->AddFetchedAgain(lease);
    std::vector<std::string> told;
    for (const internal::v1::ObjectParts& part : lease.fetched_again()) {
      for (int i = 0; i + 1 < part.bounds_size(); i += 2) {
        told.push_back(absl::StrCat(part.key(), " ", part.bounds(i), " ", part.bounds(i + 1)));
      }
    }
    return told;
  }
  // A lease of that batch did not find bytes of `key`. False if that is not taken for it.
  bool Miss(const std::string& key, absl::string_view why = reason::kNotFetched, bool wrong = false,
            uint64_t sequence = 0) {
    const internal::v1::Lease lease = LeaseOf(sequence);
    internal::v1::WorkerError error;
    if (wrong) (*error.mutable_metadata())["wrong"] = "1";
    error.set_reason(std::string(why));
    error.set_message("a.rec@9: bytes 10 to 20 are not on this host");
    (*error.mutable_metadata())["key"] = key;
    (*error.mutable_metadata())["begin"] = "10";
    (*error.mutable_metadata())["end"] = "20";
    return inputs_->FetchMissing(lease, error);
  }
  // The fetcher answers, and the loop does what follows.
  void Answer(size_t request, const absl::Status& status = absl::OkStatus()) {
    fetches_.requests[request].done(status);
    loop_->Stop();
    loop_->Run();
  }

  Fetches fetches_;
  std::shared_ptr<EventLoop> loop_ = EventLoop::Create().value();
  std::shared_ptr<StreamMeter> meter_ = std::make_shared<StreamMeter>();
  int news_ = 0;
  std::vector<absl::Status> errors_;
  std::unique_ptr<StreamInputs> inputs_ = std::make_unique<StreamInputs>(
      fetches_.Fetcher(), loop_, meter_, [this] { ++news_; },
      [this](const absl::Status& status) { errors_.push_back(status); });
};

TEST_F(StreamInputsTest, ABatchIsTakenWhenItsBytesAreHereAndNotBefore) {
  Add(0);
  EXPECT_FALSE(inputs_->Take().has_value());
  const auto survey = inputs_->NextSurvey(7, 1);
  ASSERT_TRUE(survey.has_value());
  EXPECT_EQ(survey->first_position(), 0u);
  EXPECT_EQ(survey->count(), 10u);
  EXPECT_FALSE(inputs_->NextSurvey(8, 1).has_value());
  Survey(0);
  EXPECT_FALSE(inputs_->Take().has_value());
  Answer(0);
  EXPECT_EQ(news_, 2);
  EXPECT_EQ(inputs_->Take()->sequence(), 0u);
  EXPECT_THAT(fetches_.released, IsEmpty());
  inputs_->OnDelivered(0);
  EXPECT_THAT(fetches_.released, ElementsAre(1));
}

TEST_F(StreamInputsTest, BatchesAreTakenInOrderWhateverComesFirst) {
  Add(0);
  Add(1);
  Survey(1);
  Survey(0);
  Answer(0);  // of batch 1
  EXPECT_FALSE(inputs_->Take().has_value());
}

TEST_F(StreamInputsTest, AnotherWorkerIsAskedInPlaceOfOneThatIsGoneOrSlow) {
  Add(0);
  ASSERT_TRUE(inputs_->NextSurvey(7, 1).has_value());
  inputs_->OnWorkerGone(7);
  ASSERT_TRUE(inputs_->NextSurvey(8, 2).has_value());
  const int64_t late = 2 + StreamInputs::kPatienceNs + 1;
  EXPECT_FALSE(inputs_->NextSurvey(8, late).has_value());
  EXPECT_TRUE(inputs_->NextSurvey(9, late).has_value());
  EXPECT_FALSE(inputs_->IsSilent(9, late));
  EXPECT_TRUE(inputs_->IsSilent(9, late + StreamInputs::kSilenceNs + 1));
  Survey(0);
  Survey(0);  // the slow one answers after all
  EXPECT_EQ(fetches_.requests.size(), 1u);
}

TEST_F(StreamInputsTest, StaysWithinItsBytes) {
  Add(0);
  Survey(0, StreamInputs::kMostAheadBytes - 1);
  EXPECT_TRUE(inputs_->HasRoom());
  Add(1);
  EXPECT_FALSE(inputs_->HasRoom());  // nobody knows the size of batch 1
  Survey(1, 1);
  EXPECT_FALSE(inputs_->HasRoom());
}

TEST_F(StreamInputsTest, MissingBytesOfABatchInWorkAreFetchedAndKeptWithIt) {
  Add(0);
  Survey(0);
  Answer(0);
  ASSERT_TRUE(inputs_->Take().has_value());
  EXPECT_FALSE(Miss("other", reason::kCorruptRecord));
  EXPECT_TRUE(Miss("other"));
  EXPECT_TRUE(inputs_->waits());
  ASSERT_EQ(fetches_.requests.size(), 2u);
  EXPECT_EQ(fetches_.requests[1].key, "other");
  EXPECT_EQ(fetches_.requests[1].trust, internal::v1::FetchParts::TRUST_CHECKSUMS);
  Answer(1);
  EXPECT_FALSE(inputs_->waits());
  inputs_->OnDelivered(0);
  EXPECT_THAT(fetches_.released, ElementsAre(1, 2));
}

TEST_F(StreamInputsTest, WrongBytesAreFetchedAgainOnceAndThenTakenAsTheyAre) {
  for (const uint64_t sequence : {0, 1}) {
    Add(sequence);
    Survey(sequence);
    Answer(sequence);
    ASSERT_TRUE(inputs_->Take().has_value());
  }
  EXPECT_THAT(Again(0), IsEmpty());
  EXPECT_TRUE(Miss("key", reason::kNotFetched, /*wrong=*/true));
  ASSERT_EQ(fetches_.requests.size(), 3u);
  EXPECT_EQ(fetches_.requests[2].trust, internal::v1::FetchParts::TRUST_NOTHING);
  EXPECT_TRUE(inputs_->waits());
  EXPECT_THAT(Again(0), ElementsAre("key 10 20"));
  Answer(2);
  EXPECT_FALSE(inputs_->waits());
  // A batch that was surveyed before asks as well, and gets no other bytes.
  EXPECT_THAT(Again(1), IsEmpty());
  EXPECT_TRUE(Miss("key", reason::kNotFetched, /*wrong=*/true, /*sequence=*/1));
  EXPECT_EQ(fetches_.requests.size(), 3u);
  EXPECT_FALSE(inputs_->waits());
  EXPECT_THAT(Again(1), ElementsAre("key 10 20"));
  // Those of later ones know.
  Add(2);
  Survey(2);
  Answer(3);
  ASSERT_TRUE(inputs_->Take().has_value());
  EXPECT_THAT(Again(2), ElementsAre("key 10 20"));
}

TEST_F(StreamInputsTest, TheStoreIsWaitedForOnceTheBytesAreKnown) {
  meter_->Waits(StreamMeter::Waiting::kForWorkers, MonotonicNanos());
  const auto counted = [&] {
    v1::StreamStatus status;
    meter_->Describe(MonotonicNanos(), status);
    return status.waiting_for_objects_seconds();
  };
  Add(0);
  EXPECT_FALSE(inputs_->is_awaited()) << "a worker is asked";
  EXPECT_EQ(counted(), 0);
  Survey(0);
  EXPECT_TRUE(inputs_->is_awaited());
  EXPECT_GT(counted(), 0);
  inputs_->SetIdle(false);
  EXPECT_FALSE(inputs_->is_awaited()) << "the workers have other batches";
  inputs_->SetIdle(true);
  EXPECT_TRUE(inputs_->is_awaited());
  Answer(0);
  EXPECT_FALSE(inputs_->is_awaited());
  ASSERT_TRUE(inputs_->Take().has_value());
  EXPECT_TRUE(Miss("other"));
  EXPECT_TRUE(inputs_->is_awaited());
}

TEST_F(StreamInputsTest, BytesThatAreMissingAgainAndAgainAreAnError) {
  Add(0);
  Survey(0);
  Answer(0);
  ASSERT_TRUE(inputs_->Take().has_value());
  for (int i = 0; i < 500; ++i) {  // 100, and 40 of each of 10 samples
    EXPECT_TRUE(Miss("key"));
    Answer(fetches_.requests.size() - 1);
  }
  EXPECT_TRUE(errors_.empty());
  EXPECT_TRUE(Miss("key"));
  loop_->Run();
  ASSERT_EQ(errors_.size(), 1u);
  EXPECT_EQ(GetErrorInfo(errors_[0])->reason, reason::kFileUnreadable);
  EXPECT_THAT(std::string(errors_[0].message()), testing::StartsWith("a.rec@9"));
}

TEST_F(StreamInputsTest, AFailedFetchIsTold) {
  Add(0);
  Survey(0);
  Answer(0, absl::UnavailableError("no network"));
  ASSERT_EQ(errors_.size(), 1u);
  EXPECT_EQ(errors_[0].message(), "no network");
}

TEST_F(StreamInputsTest, ItsEndReleasesAllAndIgnoresAnswers) {
  Add(0);
  Add(1);
  Survey(0);
  Survey(1);
  Answer(0);
  ASSERT_TRUE(inputs_->Take().has_value());
  inputs_.reset();
  EXPECT_THAT(fetches_.released, testing::UnorderedElementsAre(1, 2));
  Answer(1);
  EXPECT_EQ(news_, 3);
}

}  // namespace
}  // namespace bulkhead
