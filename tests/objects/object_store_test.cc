#include "server/objects/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <random>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"
#include "tests/objects/fake_environment.h"
#include "tests/objects/toy_server.h"

namespace bulkhead {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// One server for all tests: they use buckets of their own.
class ObjectStoreTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ToyServer; }
  static void TearDownTestSuite() { delete server_; }

  ObjectStoreTest() {
    bucket_ = testing::UnitTest::GetInstance()->current_test_info()->name();
    environment_.Set("AWS_ENDPOINT_URL", server_->url());
    environment_.Set("GS_ENDPOINT_URL", server_->url());
    environment_.Set("AWS_ACCESS_KEY_ID", "AKID");
    environment_.Set("AWS_SECRET_ACCESS_KEY", "hunter2");
    environment_.Set("AWS_EC2_METADATA_DISABLED", "true");
    limits_.first_backoff = absl::Milliseconds(1);
    limits_.slow_for = absl::Seconds(1);
    limits_.patience = absl::ZeroDuration();
  }

  ObjectStore& store() {
    if (store_ == nullptr) {
      StoreConfig config = *StoreConfig::FromEnvironment(environment_.get());
      config.limits = limits_;
      store_ = *ObjectStore::Create(config, environment_.get());
    }
    return *store_;
  }

  void Put(const std::string& key, const std::string& body) {
    server_->Put(absl::StrCat("/", bucket_, "/", key), body);
  }
  void Fail(const std::string& faults) { server_->Fail(faults, bucket_); }
  std::string Url(const std::string& key) const { return absl::StrCat("s3://", bucket_, "/", key); }
  std::string WebUrl(const std::string& key) const {
    return absl::StrCat(server_->url(), "/", bucket_, "/", key);
  }

  absl::StatusOr<std::vector<ObjectInfo>> Find(const std::string& pattern, size_t most = 100) {
    std::optional<absl::StatusOr<std::vector<ObjectInfo>>> found;
    store().Find(pattern, most, [&](auto result) { found = std::move(result); });
    while (!found.has_value()) store().Poll(absl::Seconds(10), -1);
    return *found;
  }

  std::vector<std::string> Keys(const std::string& pattern) {
    std::vector<std::string> keys;
    const auto found = Find(Url(pattern));
    EXPECT_TRUE(found.ok()) << found.status();
    for (const ObjectInfo& object : *found) keys.push_back(object.url.substr(Url("").size()));
    return keys;
  }

  // The object's bytes, or the error; each part must begin where the last one ended.
  absl::StatusOr<std::string> Read(const ObjectInfo& object, uint64_t begin, uint64_t end) {
    std::string bytes;
    std::optional<absl::Status> done;
    store().Read(
        object, begin, end,
        [&](uint64_t offset, absl::string_view data) {
          EXPECT_EQ(offset, begin + bytes.size());
          absl::StrAppend(&bytes, data);
          return absl::OkStatus();
        },
        [&](absl::Status status) { done = status; });
    while (!done.has_value()) store().Poll(absl::Seconds(10), -1);
    if (!done->ok()) return *done;
    return bytes;
  }

  absl::Status PutByStore(const std::string& url, const std::string& bytes) {
    std::optional<absl::Status> done;
    store().Put(url, bytes, [&](absl::Status status) { done = status; });
    while (!done.has_value()) store().Poll(absl::Seconds(10), -1);
    return *done;
  }

  ObjectInfo Found(const std::string& url) {
    const auto found = Find(url);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? found->at(0) : ObjectInfo{};
  }

  // Requests for this test's bucket.
  std::vector<std::string> Log() {
    std::vector<std::string> log;
    for (std::string& line : server_->Log()) {
      if (absl::StrContains(line, absl::StrCat("/", bucket_))) log.push_back(std::move(line));
    }
    return log;
  }

  static ToyServer* server_;
  std::string bucket_;
  FakeEnvironment environment_;
  StoreLimits limits_;
  std::unique_ptr<ObjectStore> store_;
};

ToyServer* ObjectStoreTest::server_ = nullptr;

std::string ReasonOf(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  return info.has_value() ? info->reason : "none";
}

TEST_F(ObjectStoreTest, PutsAnObject) {
  ASSERT_TRUE(PutByStore(Url("a b/ö+1.bin"), "0123456789").ok());
  EXPECT_EQ(*Read(Found(Url("a b/ö+1.bin")), 0, 10), "0123456789");
  ASSERT_TRUE(PutByStore(Url("a b/ö+1.bin"), "another").ok());
  EXPECT_EQ(Found(Url("a b/ö+1.bin")).size_bytes, 7u);
  ASSERT_TRUE(PutByStore(Url("empty"), "").ok());
  EXPECT_EQ(Found(Url("empty")).size_bytes, 0u);
  EXPECT_THAT(Log()[0], AllOf(HasSubstr("PUT /PutsAnObject/a%20b/%C3%B6%2B1.bin + Authorization: "
                                        "AWS4-HMAC-SHA256 Credential=AKID/"),
                              HasSubstr(" + 0123456789")));
}

TEST_F(ObjectStoreTest, PutsAgainWhatFailedForACauseThatPasses) {
  Fail(R"([{"do": "reset"}, {"status": 503, "code": "SlowDown"}])");
  ASSERT_TRUE(PutByStore(Url("k"), "bytes").ok());
  EXPECT_EQ(*Read(Found(Url("k")), 0, 5), "bytes");
  EXPECT_EQ(store().counters().retries, 2u);
}

TEST_F(ObjectStoreTest, SaysWhyAnObjectCannotBePut) {
  Fail(R"([{"status": 403, "code": "AccessDenied"}])");
  absl::Status put = PutByStore(Url("k"), "bytes");
  EXPECT_EQ(put.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(put.message()),
              AllOf(HasSubstr("may not be written: the store answers 403 AccessDenied"),
                    HasSubstr("the right to write it"), Not(HasSubstr("secret words"))));
  limits_.attempts = 2;
  store_.reset();
  Fail(R"([{"status": 500}, {"status": 500}])");
  put = PutByStore(Url("k"), "bytes");
  EXPECT_EQ(put.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(put.message()), HasSubstr("cannot be written: 2 attempts failed"));
  put = PutByStore("s3://NoSuchBucket/k", "bytes");
  EXPECT_EQ(ReasonOf(put), reason::kFileNotFound);
  EXPECT_THAT(std::string(put.message()), HasSubstr("there is no such bucket"));
}

TEST_F(ObjectStoreTest, PutsToBucketsOnly) {
  const absl::Status put = PutByStore(WebUrl("k"), "bytes");
  EXPECT_EQ(put.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(put.message()), HasSubstr("only read"));
  EXPECT_EQ(PutByStore("/a/file", "").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Log().empty());
}

TEST_F(ObjectStoreTest, FindsAndReadsAnObject) {
  Put("a b/ö+1.bin", "0123456789");
  const ObjectInfo object = Found(Url("a b/ö+1.bin"));
  EXPECT_EQ(object.url, Url("a b/ö+1.bin"));
  EXPECT_EQ(object.size_bytes, 10u);
  EXPECT_EQ(object.etag, "\"781e5e245d69b566979b86e28d23f2c7\"");
  EXPECT_EQ(object.mtime_ns, 1255369830'000'000'000);
  EXPECT_EQ(*Read(object, 0, 10), "0123456789");
  EXPECT_EQ(*Read(object, 3, 5), "34");
  EXPECT_EQ(*Read(object, 5, 5), "");
  EXPECT_THAT(Log(), ElementsAre(HasSubstr("HEAD /FindsAndReadsAnObject/a%20b/%C3%B6%2B1.bin + "
                                           "Authorization: AWS4-HMAC-SHA256 Credential=AKID/"),
                                 HasSubstr("Range: bytes=0-9 + If-Match: \"781e5"),
                                 HasSubstr("Range: bytes=3-4")));
  EXPECT_EQ(store().counters().requests, 3u);
  EXPECT_EQ(store().counters().retries, 0u);
  EXPECT_EQ(store().counters().bytes_read, 12u);
}

TEST_F(ObjectStoreTest, MatchesAsPathsDo) {
  for (const char* key : {"a/1.tar", "a/2.tar", "a/10.tar", "a/b/3.tar", "a/.4.tar", "a/",
                          "a/1.tar.idx", "b/1.tar", "a/x y&<.tar"}) {
    Put(key, key);
  }
  EXPECT_THAT(Keys("a/*.tar"), ElementsAre("a/1.tar", "a/10.tar", "a/2.tar", "a/x y&<.tar"));
  EXPECT_THAT(Keys("a/?.tar"), ElementsAre("a/1.tar", "a/2.tar"));
  EXPECT_THAT(Keys("*/[1-3].tar"), ElementsAre("a/1.tar", "a/2.tar", "b/1.tar"));
  EXPECT_THAT(Keys("*/*/*"), ElementsAre("a/b/3.tar"));
  EXPECT_THAT(Keys("c*"), ElementsAre());
  const ObjectInfo listed = Find(Url("b/*"))->at(0);
  EXPECT_EQ(listed.size_bytes, 7u);
  EXPECT_EQ(listed.mtime_ns, Found(Url("b/1.tar")).mtime_ns);
  EXPECT_EQ(*Read(listed, 2, 7), "1.tar");
}

TEST_F(ObjectStoreTest, TooManyMatchesAreAnError) {
  for (int i = 0; i < 6; ++i) Put(absl::StrCat("k", i), "x");
  EXPECT_EQ(Find(Url("*"), 6)->size(), 6u);
  const auto found = Find(Url("*"), 5);
  EXPECT_EQ(found.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(found.status().message(),
            "s3://TooManyMatchesAreAnError/*: more than 5 objects match; write a pattern with a "
            "longer beginning");
}

TEST_F(ObjectStoreTest, ServersOfHttpAreReadWithoutAListing) {
  Put("a b.bin", "0123456789");
  const ObjectInfo object = Found(WebUrl("a b.bin"));
  EXPECT_EQ(object.size_bytes, 10u);
  EXPECT_EQ(*Read(object, 2, 4), "23");
  EXPECT_THAT(Log().back(), Not(HasSubstr("Authorization")));
  const auto found = Find(WebUrl("*.bin"));
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(found.status().message(), HasSubstr("has a wildcard, and servers of http have no"));
}

TEST_F(ObjectStoreTest, ASignedUrlIsAskedAsItIsAndNotShown) {
  Put("k", "0123456789");
  const ObjectInfo object = Found(WebUrl("k?X-Amz-Signature=hunter2"));
  EXPECT_EQ(object.size_bytes, 10u);
  EXPECT_EQ(*Read(object, 0, 10), "0123456789");
  EXPECT_THAT(Log()[0], HasSubstr("GET /ASignedUrlIsAskedAsItIsAndNotShown/k?X-Amz-Signature="));
  const auto found = Find(WebUrl("none?X-Amz-Signature=hunter2"));
  EXPECT_EQ(found.status().message(), absl::StrCat(WebUrl("none"), ": there is no such object"));
}

TEST_F(ObjectStoreTest, WhatIsNotThereIsNotFound) {
  const auto found = Find(Url("none"));
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(found.status()), reason::kFileNotFound);
  EXPECT_EQ(found.status().message(),
            "s3://WhatIsNotThereIsNotFound/none: there is no such object");
  Fail(R"([{"status": 404}, {"status": 404, "code": "NoSuchBucket"}])");
  EXPECT_EQ(Find(Url("none")).status().message(),
            "s3://WhatIsNotThereIsNotFound/none: there is no such bucket");
}

TEST_F(ObjectStoreTest, ARefusalSaysWhatToDo) {
  const auto refused = [&](const std::string& code) {
    Fail(absl::StrCat(R"([{"status": 403}, {"status": 403, "code": ")", code, "\"}]"));
    const absl::Status status = Find(Url("k")).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(ReasonOf(status), reason::kFileUnreadable);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr(code), Not(HasSubstr("secret words")), Not(HasSubstr("hunter2"))));
    return std::string(status.message());
  };
  EXPECT_EQ(refused("AccessDenied"),
            "s3://ARefusalSaysWhatToDo/k: may not be read: the store answers 403 AccessDenied; "
            "give the credentials from AWS_ACCESS_KEY_ID the right to read it and, for wildcards, "
            "to list the bucket");
  EXPECT_THAT(refused("SignatureDoesNotMatch"), HasSubstr("check the key and its secret"));
  EXPECT_THAT(refused("RequestTimeTooSkewed"), HasSubstr("set this host's clock"));
  environment_.Unset("AWS_ACCESS_KEY_ID");
  environment_.Unset("AWS_SECRET_ACCESS_KEY");
  store_ = nullptr;
  EXPECT_THAT(refused("AccessDenied"), HasSubstr("no credentials were found"));
  EXPECT_THAT(Log().back(), Not(HasSubstr("Authorization")));
}

// libcurl itself sends a request again whose kept connection turned out to be closed, so that one
// reset is no fault yet.
TEST_F(ObjectStoreTest, FaultsThatPassAreTriedAgain) {
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

TEST_F(ObjectStoreTest, ARetryAsksForWhatIsMissing) {
  Put("k", "0123456789");
  const ObjectInfo object = Found(Url("k"));
  Fail(R"([{"do": "half"}, {"do": "half"}])");
  EXPECT_EQ(*Read(object, 0, 8), "01234567");
  EXPECT_THAT(Log(), ElementsAre(HasSubstr("HEAD"), HasSubstr("Range: bytes=0-7"),
                                 HasSubstr("Range: bytes=4-7"), HasSubstr("Range: bytes=6-7")));
}

TEST_F(ObjectStoreTest, ListingsAreTriedAgain) {
  Put("k", "x");
  Fail(R"([{"do": "error_in_200"}, {"do": "bad_xml"}, {"status": 503}])");
  EXPECT_THAT(Keys("*"), ElementsAre("k"));
  EXPECT_EQ(store().counters().retries, 3u);
}

TEST_F(ObjectStoreTest, GivesUpAfterTheLastAttempt) {
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

TEST_F(ObjectStoreTest, EveryRequestIsTriedForAsLongAsThePatience) {
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

TEST_F(ObjectStoreTest, TheTimeBeforeACallIsNoSilence) {
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

TEST_F(ObjectStoreTest, WaitsAsLongAsTheStoreAsks) {
  Put("k", "x");
  const ObjectInfo object = Found(Url("k"));
  Fail(R"([{"status": 503, "headers": {"Retry-After": "1"}}])");
  const int64_t began = MonotonicNanos();
  EXPECT_EQ(*Read(object, 0, 1), "x");
  EXPECT_GE(MonotonicNanos() - began, 1'000'000'000);
}

TEST_F(ObjectStoreTest, AChangedObjectIsNotRead) {
  Put("k", "0123456789");
  const ObjectInfo object = Found(Url("k"));
  const auto changed = [&](const ObjectInfo& read) {
    const absl::Status status = Read(read, 0, 10).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(ReasonOf(status), reason::kFileChanged);
    return std::string(status.message());
  };
  Fail(R"([{"do": "etag"}])");
  EXPECT_THAT(changed(object), HasSubstr("its ETag is another one"));
  Fail(R"([{"do": "smaller"}])");
  ObjectInfo without_etag = object;
  without_etag.etag.clear();
  EXPECT_THAT(changed(without_etag), HasSubstr("10 bytes then, 9 now"));
  Fail(R"([{"status": 416}])");
  EXPECT_THAT(changed(object), HasSubstr("it is shorter now"));
  Put("k", "9876543210");
  EXPECT_EQ(changed(object),
            "s3://AChangedObjectIsNotRead/k: changed since it was indexed (its ETag is another "
            "one); open the stream again, which indexes it again");
  EXPECT_EQ(store().counters().bytes_read, 0u);
}

TEST_F(ObjectStoreTest, AServerWithoutRangesIsReadWholeOnly) {
  Put("k", "0123456789");
  const ObjectInfo object = Found(WebUrl("k"));
  Fail(R"([{"do": "whole"}, {"do": "whole"}])");
  EXPECT_EQ(*Read(object, 0, 10), "0123456789");
  const absl::Status status = Read(object, 0, 5).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("sends whole objects only"));
}

TEST_F(ObjectStoreTest, AnErrorOfTheSinkEndsTheRead) {
  Put("k", "0123456789");
  const ObjectInfo object = Found(Url("k"));
  std::optional<absl::Status> done;
  store().Read(
      object, 0, 10, [](uint64_t, absl::string_view) { return absl::UnavailableError("full"); },
      [&](absl::Status status) { done = status; });
  while (!done.has_value()) store().Poll(absl::Seconds(10), -1);
  EXPECT_EQ(*done, absl::UnavailableError("full"));
  EXPECT_EQ(store().counters().retries, 0u);
  EXPECT_EQ(Read(object, 9, 11).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ObjectStoreTest, ALateRangeIsAskedForTwice) {
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

TEST_F(ObjectStoreTest, AStoreThatAnswersNothingEndsEachReadAtItsFirstFailure) {
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

TEST_F(ObjectStoreTest, AnAnswerEndsTheWaitOfReadsThatHadNone) {
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

TEST_F(ObjectStoreTest, AStoreNamesTheRegionOfABucket) {
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

TEST_F(ObjectStoreTest, AStoreThatNamesMoreAndMoreRegionsIsNotFollowed) {
  const auto fault = [](int region) {
    return absl::StrCat(R"({"status": 301, "headers": {"x-amz-bucket-region": "r)", region, "\"}}");
  };
  Fail(absl::StrCat("[", fault(1), ",", fault(2), ",", fault(3), "]"));
  const absl::Status status = Find(Url("*")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("the bucket is in the region r3 (the store answers 301); "
                                          "set AWS_REGION=r3"));
}

TEST_F(ObjectStoreTest, EveryByteComesOnceWhateverFails) {
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

TEST_F(ObjectStoreTest, AnExpiredTokenIsRenewedOnce) {
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

TEST_F(ObjectStoreTest, GoogleTakesABearerToken) {
  const std::string path = testing::TempDir() + "/object_store_test_token";
  ASSERT_EQ(system(("echo token1 > " + path).c_str()), 0);
  environment_.Set("GS_BEARER_TOKEN_FILE", path);
  Put("k", "0123456789");
  const ObjectInfo object = Found(absl::StrCat("gs://", bucket_, "/k"));
  EXPECT_THAT(Log().back(), HasSubstr("Authorization: Bearer token1"));
  ASSERT_EQ(system(("echo token2 > " + path + ".new; mv " + path + ".new " + path).c_str()), 0);
  EXPECT_EQ(*Read(object, 0, 3), "012");
  EXPECT_THAT(Log().back(), HasSubstr("Authorization: Bearer token2"));
}

TEST_F(ObjectStoreTest, AHostThatIsNotThereIsSaid) {
  const absl::Status status = Find("http://nowhere.invalid/k").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("5 attempts failed"),
                                      HasSubstr("Could not resolve host: nowhere.invalid")));
}

TEST_F(ObjectStoreTest, OnlyTrustedCertificatesAreTaken) {
  const std::string file = testing::TempDir() + "/object_store_test.pem";
  ASSERT_EQ(system(("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                    "-days 1 -subj /CN=test -addext subjectAltName=IP:127.0.0.1 -keyout " +
                    file + " -out " + file + ".crt 2>/dev/null && cat " + file + ".crt >> " + file)
                       .c_str()),
            0);
  ToyServer server(file);
  server.Put("/b/k", "0123456789");
  const absl::Status status = Find(server.url() + "/b/k").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("the host's certificate is not trusted"),
                                      HasSubstr("set AWS_CA_BUNDLE to the file of its authority")));
  environment_.Set("AWS_CA_BUNDLE", file);
  store_ = nullptr;
  EXPECT_EQ(*Read(Found(server.url() + "/b/k"), 2, 4), "23");
}

TEST_F(ObjectStoreTest, ManyReadsShareTheConnections) {
  Put("k", std::string(100'000, 'x'));
  limits_.connections = 4;
  const ObjectInfo object = Found(Url("k"));
  size_t bytes = 0, done = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    store().Read(
        object, i * 1000, (i + 1) * 1000,
        [&](uint64_t, absl::string_view data) {
          bytes += data.size();
          return absl::OkStatus();
        },
        [&](absl::Status status) {
          EXPECT_TRUE(status.ok()) << status;
          ++done;
        });
  }
  while (done < 100) store().Poll(absl::Seconds(10), -1);
  EXPECT_EQ(bytes, 100'000u);
}

TEST_F(ObjectStoreTest, PollSeesTheOtherSocket) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  EXPECT_FALSE(store().Poll(absl::ZeroDuration(), sockets[0]));
  ASSERT_EQ(write(sockets[1], "x", 1), 1);
  const int64_t began = MonotonicNanos();
  EXPECT_TRUE(store().Poll(absl::Seconds(60), sockets[0]));
  EXPECT_LT(MonotonicNanos() - began, 30'000'000'000);
  char byte;
  ASSERT_EQ(read(sockets[0], &byte, 1), 1);
  close(sockets[1]);
  EXPECT_TRUE(store().Poll(absl::Seconds(60), sockets[0]));
  close(sockets[0]);
}

TEST_F(ObjectStoreTest, PollDoesNotWaitAfterACallback) {
  bool was_called = false;
  store().Find("nonsense", 1, [&](const auto&) { was_called = true; });
  EXPECT_FALSE(was_called);
  const int64_t began = MonotonicNanos();
  store().Poll(absl::Seconds(20), -1);
  EXPECT_TRUE(was_called);
  EXPECT_LT(MonotonicNanos() - began, 10'000'000'000);
}

TEST_F(ObjectStoreTest, DestructionDropsWhatIsUnderWay) {
  Put("k", "x");
  const ObjectInfo object = Found(Url("k"));
  Fail(R"([{"do": "stall"}])");
  bool was_called = false;
  store().Read(
      object, 0, 1, [](uint64_t, absl::string_view) { return absl::OkStatus(); },
      [&](absl::Status) { was_called = true; });
  store().Poll(absl::Milliseconds(50), -1);
  store_ = nullptr;
  EXPECT_FALSE(was_called);
}

}  // namespace
}  // namespace bulkhead
