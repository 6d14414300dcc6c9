#include "server/objects/store_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/objects/retry.h"

namespace bulkhead {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

HttpRequest RequestFor(const std::string& url, const StoreConfig& config = {},
                       const StoreCredentials& credentials = {},
                       const std::string& region = "eu-west-1", NamedValues query = {}) {
  return MakeStoreRequest(config, {"GET", *ParseObjectUrl(url), std::move(query), {{"Range", "r"}}},
                          region, credentials, absl::FromUnixSeconds(1'800'000'000));
}

std::string UrlFor(const std::string& url, const StoreConfig& config = {}) {
  return RequestFor(url, config).url;
}

StoreCredentials SomeKey() {
  StoreCredentials credentials;
  credentials.key = {"ID", "S", ""};
  return credentials;
}

TEST(StoreRequestTest, AmazonsBucketsAreHosts) {
  EXPECT_EQ(UrlFor("s3://bucket-1/a/b c"), "https://bucket-1.s3.eu-west-1.amazonaws.com/a/b%20c");
  // No certificate is valid for the first, and the others are no names of hosts.
  EXPECT_EQ(UrlFor("s3://a.b/k"), "https://s3.eu-west-1.amazonaws.com/a.b/k");
  EXPECT_EQ(UrlFor("s3://Old_Bucket/k"), "https://s3.eu-west-1.amazonaws.com/Old_Bucket/k");
  EXPECT_EQ(RequestFor("s3://b/k", {}, {}, "cn-north-1").url,
            "https://b.s3.cn-north-1.amazonaws.com.cn/k");
}

TEST(StoreRequestTest, AnEndpointIsUsedAsItIs) {
  StoreConfig config;
  config.s3_endpoint = "http://127.0.0.1:9000/base";
  EXPECT_EQ(UrlFor("s3://b/k", config), "http://b.127.0.0.1:9000/base/k");
  config.path_style = true;
  EXPECT_EQ(UrlFor("s3://b/k", config), "http://127.0.0.1:9000/base/b/k");
  EXPECT_EQ(UrlFor("gs://b/k", config), "https://storage.googleapis.com/b/k");
}

TEST(StoreRequestTest, ABucketItselfHasAQuery) {
  StoreConfig config;
  config.path_style = true;
  ObjectUrl bucket = *ParseObjectUrl("s3://b/k");
  bucket.key.clear();
  const StoreOperation list{"GET", bucket, {{"prefix", "a/b c"}, {"list-type", "2"}}, {}};
  EXPECT_EQ(MakeStoreRequest(config, list, "r", {}, absl::UnixEpoch()).url,
            "https://s3.r.amazonaws.com/b?list-type=2&prefix=a%2Fb%20c");
  config.path_style = false;
  EXPECT_EQ(MakeStoreRequest(config, list, "r", {}, absl::UnixEpoch()).url,
            "https://b.s3.r.amazonaws.com/?list-type=2&prefix=a%2Fb%20c");
}

TEST(StoreRequestTest, AWebsUrlIsMadeValidAndNotSigned) {
  const HttpRequest request = RequestFor("http://h:1/a b/%20ö?q=\"x\"&y=%2F", {}, SomeKey());
  EXPECT_EQ(request.url, "http://h:1/a%20b/%20%C3%B6?q=%22x%22&y=%2F");
  EXPECT_THAT(request.headers, ElementsAre(Pair("Range", "r")));
  EXPECT_TRUE(request.follows_redirects);
}

TEST(StoreRequestTest, SignsAllButWhatProxiesChange) {
  const HttpRequest request = RequestFor("s3://b/k", {}, SomeKey());
  EXPECT_FALSE(request.follows_redirects);
  EXPECT_THAT(request.headers,
              Contains(Pair("Authorization",
                            HasSubstr("Credential=ID/20270115/eu-west-1/s3/aws4_request, "
                                      "SignedHeaders=host;x-amz-content-sha256;x-amz-date,"))));
  EXPECT_THAT(request.headers, Contains(Pair("Range", "r")));
  EXPECT_THAT(RequestFor("s3://b/k").headers, Not(Contains(Key("Authorization"))));
}

TEST(StoreRequestTest, GooglesKeysSignForNoRegion) {
  EXPECT_THAT(RequestFor("gs://b/k", {}, SomeKey()).headers,
              Contains(Pair("Authorization", HasSubstr("/auto/s3/aws4_request"))));
  StoreCredentials credentials;
  credentials.bearer_token = "t";
  EXPECT_THAT(RequestFor("gs://b/k", {}, credentials).headers,
              Contains(Pair("Authorization", "Bearer t")));
}

HttpHead HeadWith(const std::string& retry_after) {
  HttpHead head;
  head.headers["retry-after"] = retry_after;
  return head;
}

TEST(RetryTest, ReadsBothFormsOfRetryAfter) {
  const absl::Time now =
      absl::FromCivil(absl::CivilSecond(2015, 10, 21, 7, 27, 0), absl::UTCTimeZone());
  EXPECT_EQ(RetryAfter(HeadWith("120"), now), absl::Seconds(120));
  EXPECT_EQ(RetryAfter(HeadWith("Wed, 21 Oct 2015 07:28:00 GMT"), now), absl::Seconds(60));
  EXPECT_EQ(RetryAfter(HeadWith("Wed, 21 Oct 2015 07:26:00 GMT"), now), absl::ZeroDuration());
  EXPECT_EQ(RetryAfter(HeadWith("-5"), now), absl::ZeroDuration());
  EXPECT_EQ(RetryAfter(HeadWith("soon"), now), absl::ZeroDuration());
  EXPECT_EQ(RetryAfter({}, now), absl::ZeroDuration());
}

TEST(RetryTest, BacksOffWithFullJitter) {
  Backoff backoff({}, 1);
  absl::Duration least[3], most[3];
  const int attempts[3] = {1, 4, 40};
  for (int i = 0; i < 3; ++i) {
    least[i] = absl::InfiniteDuration();
    most[i] = absl::ZeroDuration();
    for (int draw = 0; draw < 1000; ++draw) {
      const absl::Duration wait = backoff.After(attempts[i], absl::ZeroDuration());
      least[i] = std::min(least[i], wait);
      most[i] = std::max(most[i], wait);
    }
  }
  const absl::Duration bounds[3] = {absl::Milliseconds(100), absl::Milliseconds(800),
                                    absl::Seconds(20)};
  for (int i = 0; i < 3; ++i) {
    EXPECT_LT(least[i], bounds[i] / 20);
    EXPECT_GT(most[i], bounds[i] * 0.95);
    EXPECT_LE(most[i], bounds[i]);
  }
}

TEST(RetryTest, WaitsAsLongAsAskedUpToABound) {
  Backoff backoff({}, 1);
  EXPECT_GE(backoff.After(1, absl::Seconds(5)), absl::Seconds(5));
  EXPECT_EQ(backoff.After(1, absl::Hours(1)), absl::Seconds(60));
}

}  // namespace
}  // namespace bulkhead
