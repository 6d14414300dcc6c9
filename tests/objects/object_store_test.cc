#include "server/objects/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"
#include "tests/objects/object_store_fixture.h"

namespace bulkhead {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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
  EXPECT_EQ(
      changed(object),
      "s3://AChangedObjectIsNotRead/k: changed since it was indexed (its ETag is another "
      "one); open the stream without a cursor to read it as it is now, or put the earlier file "
      "back and go on from the last cursor");
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
