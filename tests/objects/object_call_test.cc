#include "server/objects/object_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"
#include "tests/objects/object_store_fixture.h"

namespace bulkhead {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What a store's calls do when requests fail, are late, or lead elsewhere.
class ObjectCallTest : public ObjectStoreTest {};

TEST_F(ObjectCallTest, PutsAgainWhatFailedForACauseThatPasses) {
  Fail(R"([{"do": "reset"}, {"status": 503, "code": "SlowDown"}])");
  ASSERT_TRUE(PutByStore(Url("k"), "bytes").ok());
  EXPECT_EQ(*Read(Found(Url("k")), 0, 5), "bytes");
  EXPECT_EQ(store().counters().retries, 2u);
}

// libcurl itself sends a request again whose kept connection turned out to be closed, so that one
// reset is no fault yet.
TEST_F(ObjectCallTest, FaultsThatPassAreTriedAgain) {
  Put("k", "0123456789");
  const ObjectInfo object = Found(Url("k"));
  for (const char* fault :
       {R"({"status": 500})", R"({"status": 503, "code": "SlowDown"})", R"({"status": 429})",
        R"({"status": 408})", R"({"status": 400, "code": "RequestTimeout"})",
        R"({"do": "reset"}, {"do": "reset"})", R"({"do": "half"})", R"({"do": "drip"})",
        R"({"do": "error_in_200"})", R"({"do": "other_range"})"}) {
    Fail(absl::StrCat("[", fault, "]"));
    const uint64_t retries = store().counters().retries;
    const auto bytes = Read(object, 1, 9);
    ASSERT_TRUE(bytes.ok()) << fault << ": " << bytes.status();
    EXPECT_EQ(*bytes, "12345678") << fault;
    EXPECT_EQ(store().counters().retries, retries + 1) << fault;
  }
}

TEST_F(ObjectCallTest, ARetryAsksForWhatIsMissing) {
  Put("k", "0123456789");
  const ObjectInfo object = Found(Url("k"));
  Fail(R"([{"do": "half"}, {"do": "half"}])");
  EXPECT_EQ(*Read(object, 0, 8), "01234567");
  EXPECT_THAT(Log(), ElementsAre(HasSubstr("HEAD"), HasSubstr("Range: bytes=0-7"),
                                 HasSubstr("Range: bytes=4-7"), HasSubstr("Range: bytes=6-7")));
}

TEST_F(ObjectCallTest, ListingsAreTriedAgain) {
  Put("k", "x");
  Fail(R"([{"do": "error_in_200"}, {"do": "bad_xml"}, {"status": 503}])");
  EXPECT_THAT(Keys("*"), ElementsAre("k"));
  EXPECT_EQ(store().counters().retries, 3u);
}

TEST_F(ObjectCallTest, GivesUpAfterTheLastAttempt) {
  Put("k", "0123456789");
  const ObjectInfo object = Found(Url("k"));
  const std::string fault = R"({"status": 503, "code": "SlowDown"})";
  Fail(absl::StrCat("[", fault, ",", fault, ",", fault, ",", fault, ",", fault, "]"));
  const absl::Status status = Read(object, 0, 10).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status), reason::kFileUnreadable);
  EXPECT_EQ(status.message(),
            "s3://GivesUpAfterTheLastAttempt/k: cannot be read: 5 attempts failed, the last one "
            "thus: the store answers 503 SlowDown");
  EXPECT_EQ(*Read(object, 0, 10), "0123456789");
}

TEST_F(ObjectCallTest, EveryRequestIsTriedForAsLongAsThePatience) {
  limits_.patience = absl::Seconds(60);
  Put("k", "0123456789");
  const std::string fault = R"({"status": 503, "code": "SlowDown"})";
  const std::string faults =
      absl::StrCat("[", absl::StrJoin(std::vector<std::string>(8, fault), ","), "]");
  Fail(faults);
  const ObjectInfo object = Found(Url("k"));
  EXPECT_EQ(store().counters().retries, 8u);
  Fail(faults);
  EXPECT_THAT(Keys("*"), ElementsAre("k"));
  EXPECT_EQ(store().counters().retries, 16u);
  Fail(faults);
  EXPECT_EQ(*Read(object, 0, 10), "0123456789");
  EXPECT_EQ(store().counters().retries, 24u);
  Fail(faults);
  EXPECT_TRUE(PutByStore(Url("new"), "x").ok());
  EXPECT_EQ(store().counters().retries, 32u);
}

TEST_F(ObjectCallTest, TheTimeBeforeACallIsNoSilence) {
  limits_.patience = absl::Milliseconds(200);
  limits_.slow_for = absl::Seconds(20);
  limits_.least_hedge_delay = absl::Seconds(60);
  Put("k", "0123456789");
  const ObjectInfo object = Found(Url("k"));
  // A read that has no answer keeps the store's calls going.
  Fail(R"([{"do": "stall"}, {"status": 503}])");
  store().Read(
      object, 0, 1, [](uint64_t, absl::string_view) { return absl::OkStatus(); },
      [](const absl::Status&) {});
  while (Log().size() < 2) store().Poll(absl::Milliseconds(10), -1);
  const int64_t began = MonotonicNanos();
  while (MonotonicNanos() - began < 300'000'000) store().Poll(absl::Milliseconds(10), -1);
  EXPECT_EQ(*Read(object, 0, 10), "0123456789");
}

TEST_F(ObjectCallTest, WaitsAsLongAsTheStoreAsks) {
  Put("k", "x");
  const ObjectInfo object = Found(Url("k"));
  Fail(R"([{"status": 503, "headers": {"Retry-After": "1"}}])");
  const int64_t began = MonotonicNanos();
  EXPECT_EQ(*Read(object, 0, 1), "x");
  EXPECT_GE(MonotonicNanos() - began, 1'000'000'000);
}

TEST_F(ObjectCallTest, ALateRangeIsAskedForTwice) {
  Put("k", "0123456789");
  const ObjectInfo object = Found(Url("k"));
  limits_.least_hedge_delay = absl::Milliseconds(50);
  limits_.slow_for = absl::Seconds(20);
  store_ = nullptr;
  Fail(R"([{"do": "stall"}])");
  EXPECT_EQ(*Read(object, 0, 10), "0123456789");
  EXPECT_EQ(store().counters().hedges, 1u);
  EXPECT_EQ(store().counters().retries, 0u);
  EXPECT_EQ(store().counters().bytes_read, 10u);
}

TEST_F(ObjectCallTest, AStoreThatAnswersNothingEndsEachReadAtItsFirstFailure) {
  Put("k", "0123456789");
  const ObjectInfo object = Found(Url("k"));
  limits_.connections = 1;
  limits_.patience = absl::Milliseconds(500);
  limits_.least_hedge_delay = absl::Milliseconds(50);
  store_ = nullptr;
  Fail(R"([{"do": "stall"}, {"do": "stall"}, {"do": "stall"}, {"do": "stall"}])");
  std::vector<absl::Status> ended;
  for (int i = 0; i < 2; ++i) {
    store().Read(
        object, 0, 10, [](uint64_t, absl::string_view) { return absl::OkStatus(); },
        [&](absl::Status status) { ended.push_back(std::move(status)); });
  }
  while (ended.size() < 2) store().Poll(absl::Seconds(10), -1);
  for (const absl::Status& status : ended) EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(store().counters().requests, 2u);
  // With no connection free, a second request would wait behind the others.
  EXPECT_EQ(store().counters().hedges, 0u);
}

TEST_F(ObjectCallTest, AnAnswerEndsTheWaitOfReadsThatHadNone) {
  Put("k", "0123456789");
  const ObjectInfo object = Found(Url("k"));
  limits_.first_backoff = limits_.most_backoff = absl::Hours(1000);
  limits_.away = absl::ZeroDuration();
  store_ = nullptr;
  Fail(R"([{"do": "reset"}, {"do": "reset"}])");
  int asked = 0;
  int ended = 0;
  const auto read = [&] {
    ++asked;
    store().Read(
        object, 0, 10, [](uint64_t, absl::string_view) { return absl::OkStatus(); },
        [&](const absl::Status& status) {
          EXPECT_TRUE(status.ok()) << status;
          ++ended;
        });
  };
  read();
  read();
  while (Log().size() < 3) store().Poll(absl::Milliseconds(10), -1);  // one was Find's
  // The resets may not have been seen yet.
  for (int i = 0; i < 1000 && store().counters().retries < 2; ++i) {
    read();
    for (const int before = ended; ended == before;) store().Poll(absl::Seconds(10), -1);
  }
  ASSERT_EQ(store().counters().retries, 2u);
  while (ended < asked) store().Poll(absl::Seconds(10), -1);
}

TEST_F(ObjectCallTest, AStoreNamesTheRegionOfABucket) {
  Put("k", "0123456789");
  Fail(R"([{"status": 301, "headers": {"x-amz-bucket-region": "eu-west-1"}}])");
  const ObjectInfo object = Found(Url("k"));
  EXPECT_EQ(*Read(object, 0, 10), "0123456789");
  EXPECT_THAT(Log(), ElementsAre(HasSubstr("/us-east-1/s3"), HasSubstr("/eu-west-1/s3"),
                                 HasSubstr("/eu-west-1/s3")));
  Fail(
      R"([{"status": 400, "code": "AuthorizationHeaderMalformed", "headers": {"region": "eu-west-2"}}])");
  EXPECT_EQ(*Read(object, 0, 10), "0123456789");
  EXPECT_THAT(Log().back(), HasSubstr("/eu-west-2/s3"));
}

TEST_F(ObjectCallTest, AStoreThatNamesMoreAndMoreRegionsIsNotFollowed) {
  const auto fault = [](int region) {
    return absl::StrCat(R"({"status": 301, "headers": {"x-amz-bucket-region": "r)", region, "\"}}");
  };
  Fail(absl::StrCat("[", fault(1), ",", fault(2), ",", fault(3), "]"));
  const absl::Status status = Find(Url("*")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("the bucket is in the region r3 (the store answers 301); "
                                          "set AWS_REGION=r3"));
}

TEST_F(ObjectCallTest, EveryByteComesOnceWhateverFails) {
  const char* const seed_text = std::getenv("BULKHEAD_SEED");
  const auto seed = static_cast<unsigned>(seed_text == nullptr ? 1 : std::atoi(seed_text));
  SCOPED_TRACE(absl::StrCat("BULKHEAD_SEED=", seed));
  std::mt19937 random(seed);
  std::string body(200'000, '\0');
  for (char& byte : body) byte = static_cast<char>(random());
  Put("k", body);
  limits_.attempts = 20;
  limits_.connections = 8;
  limits_.least_hedge_delay = absl::Milliseconds(20);
  const ObjectInfo object = Found(Url("k"));
  const std::vector<std::string> kinds = {"{}",
                                          R"({"do": "half"})",
                                          R"({"do": "reset"})",
                                          R"({"status": 503})",
                                          R"({"do": "stall"})",
                                          R"({"do": "other_range"})",
                                          R"({"do": "error_in_200"})"};
  std::string faults = "[{}";
  for (int i = 0; i < 150; ++i) absl::StrAppend(&faults, ",", kinds[random() % kinds.size()]);
  Fail(faults + "]");
  std::string read;
  read.resize(body.size());
  size_t bytes = 0, done = 0;
  for (uint64_t begin = 0; begin < body.size(); begin += 1000) {
    store().Read(
        object, begin, begin + 1000,
        [&](uint64_t offset, absl::string_view data) {
          read.replace(offset, data.size(), data.data(), data.size());
          bytes += data.size();
          return absl::OkStatus();
        },
        [&](absl::Status status) {
          EXPECT_TRUE(status.ok()) << status;
          ++done;
        });
  }
  while (done < 200) store().Poll(absl::Seconds(10), -1);
  EXPECT_EQ(bytes, body.size());
  EXPECT_TRUE(read == body);
  EXPECT_GT(store().counters().retries, 20u);
  EXPECT_GT(store().counters().hedges, 0u);
}

TEST_F(ObjectCallTest, AnExpiredTokenIsRenewedOnce) {
  Put("k", "0123456789");
  environment_.Set("AWS_SESSION_TOKEN", "old");
  const ObjectInfo object = Found(Url("k"));
  environment_.Set("AWS_SESSION_TOKEN", "new");
  const std::string fault = R"({"status": 400, "code": "ExpiredToken"})";
  Fail(absl::StrCat("[", fault, "]"));
  EXPECT_EQ(*Read(object, 0, 10), "0123456789");
  EXPECT_THAT(Log(), ElementsAre(HasSubstr("Token: old"), HasSubstr("Token: old"),
                                 HasSubstr("Token: new")));
  Fail(absl::StrCat("[", fault, ",", fault, "]"));
  const absl::Status status = Read(object, 0, 10).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), HasSubstr("renew the session token"));
}

}  // namespace
}  // namespace bulkhead
