#include "server/base/paths/object_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

using Scheme = ObjectUrl::Scheme;

std::string WhyNot(absl::string_view url) {
  const absl::StatusOr<ObjectUrl> parsed = ParseObjectUrl(url);
  if (parsed.ok()) return "valid";
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorInfo(parsed.status())->reason, reason::kSpecInvalid);
  return std::string(parsed.status().message());
}

TEST(ObjectUrlTest, IsKnownByItsScheme) {
  for (const char* url : {"s3://b/k", "gs://", "http://h", "HTTPS://h/p"}) {
    EXPECT_TRUE(IsObjectUrl(url)) << url;
  }
  for (const char* path : {"/s3://b/k", "s3:/b/k", "s3", "", "ftp://h/p", "data/*.tar"}) {
    EXPECT_FALSE(IsObjectUrl(path)) << path;
  }
}

TEST(ObjectUrlTest, ABucketsKeyIsTakenAsItStands) {
  const ObjectUrl url = *ParseObjectUrl("s3://my.bucket-1/a//b c/%41?#*[0-9].tar");
  EXPECT_EQ(url.scheme, Scheme::kS3);
  EXPECT_EQ(url.host, "my.bucket-1");
  EXPECT_EQ(url.key, "a//b c/%41?#*[0-9].tar");
  EXPECT_EQ(url.query, "");
  EXPECT_EQ(ParseObjectUrl("gs://b/k@2/日本")->key, "k@2/日本");
}

TEST(ObjectUrlTest, AWebPageHasAHostAPathAndAQuery) {
  const ObjectUrl url = *ParseObjectUrl("HTTPS://data.example:8443/a/b%20c?X-Sig=a/b@c&d");
  EXPECT_EQ(url.scheme, Scheme::kHttps);
  EXPECT_EQ(url.host, "data.example:8443");
  EXPECT_EQ(url.key, "a/b%20c");
  EXPECT_EQ(url.query, "X-Sig=a/b@c&d");
  EXPECT_EQ(ParseObjectUrl("http://[::1]:80/x")->host, "[::1]:80");
  EXPECT_EQ(ParseObjectUrl("http://h?q")->key, "");
  EXPECT_EQ(ParseObjectUrl("http://h/a@b")->key, "a@b");
}

TEST(ObjectUrlTest, WhatIsWrongIsSaid) {
  EXPECT_EQ(WhyNot("ftp://h/p"),
            "ftp://h/p: is no URL of an object; it begins with s3://, gs://, https:// or http://");
  EXPECT_EQ(WhyNot("s3:///k"), "s3:///k: names no bucket; write s3://BUCKET/KEY");
  EXPECT_EQ(WhyNot("gs://b"), "gs://b: names no object; write gs://BUCKET/KEY");
  EXPECT_EQ(WhyNot("gs://b/"), "gs://b/: names no object; write gs://BUCKET/KEY");
  EXPECT_EQ(WhyNot("s3://b*/k"),
            "s3://b*/k: its bucket may have letters, digits, '-', '_' and '.' only, no wildcards");
  EXPECT_EQ(WhyNot("s3://b/a/../k"), "s3://b/a/../k: has a component '..'; write the key itself");
  EXPECT_EQ(WhyNot("http://h/a/%2E./k"),
            "http://h/a/%2E./k: has a component '..'; write the path itself");
  EXPECT_EQ(WhyNot("http:///p"), "http:///p: names no host; write http://HOST/PATH");
  EXPECT_EQ(WhyNot("http://h:x/p"), "http://h:x/p: what follows '://' is no host");
  EXPECT_EQ(WhyNot("http://[::1/p"), "http://[::1/p: what follows '://' is no host");
  EXPECT_EQ(WhyNot("http://h/p?q#f"),
            "http://h/p: has a fragment (what follows '#'), which names no object; remove it");
  EXPECT_EQ(WhyNot("s3://b/k\n"),
            "s3://b/k\\x0a: has a control character, such as the end of a line; give the "
            "object a name without it");
}

TEST(ObjectUrlTest, APasswordIsRefusedAndNotRepeated) {
  for (const char* url :
       {"http://user:hunter2@h/p", "https://hunter2@h/p", "s3://key:hunter2@b/k",
        "http://user:hunter/2@h/p", "http://user:hunter/hunter@2@h/p", "s3://user:hunter2/x@b/k"}) {
    const std::string why = WhyNot(url);
    EXPECT_THAT(why, testing::HasSubstr("has a user name or password"));
    EXPECT_THAT(why, testing::Not(testing::HasSubstr("hunter")));
    EXPECT_THAT(ShownUrl(url), testing::Not(testing::HasSubstr("hunter")));
  }
}

TEST(ObjectUrlTest, IsShownWithoutItsQuery) {
  EXPECT_EQ(ShownUrl("https://h/p?X-Amz-Signature=secret"), "https://h/p");
  EXPECT_EQ(ShownUrl("https://h?X-Amz-Signature=secret"), "https://h");
  EXPECT_EQ(ShownUrl("https://user@h/p#secret"), "https://…@h/p");
  EXPECT_EQ(ShownUrl("s3://b/a?.tar"), "s3://b/a?.tar");
  EXPECT_EQ(ShownUrl("a\n"), "a\\x0a");
}

TEST(ObjectUrlTest, WhatSeemsToBeAnotherUrlIsNoPath) {
  for (const char* url : {"az://container/x", "s3:/bucket/x", "S3:/x", "gs:/b", "http:/h/x",
                          "file:///data/x", "hdfs+ha://x"}) {
    EXPECT_TRUE(LooksLikeUrl(url)) << url;
  }
  for (const char* other :
       {"s3://b/k", "/data/s3:/x", "./az://x", "s3", "data/a:b/x", "://x", ""}) {
    EXPECT_FALSE(LooksLikeUrl(other)) << other;
  }
  EXPECT_EQ(WhyNot("S3://b/k"), "S3://b/k: write s3:// in small letters");
}

TEST(ObjectUrlTest, AFolderIsShownAsItIsWritten) {
  EXPECT_EQ(ParseFolderUrl("s3://b")->key, "");
  EXPECT_EQ(ParseFolderUrl("s3://b/")->key, "");
  EXPECT_EQ(ParseFolderUrl("gs://b/photos")->key, "photos/");
  EXPECT_EQ(ParseFolderUrl("gs://b/photos/")->key, "photos/");
  EXPECT_EQ(ParseFolderUrl("s3://b/../photos").status().message(),
            "s3://b/../photos: has a component '..'; write the key itself");
  EXPECT_EQ(ParseFolderUrl("S3://b/photos").status().message(),
            "S3://b/photos: write s3:// in small letters");
  EXPECT_EQ(ParseFolderUrl("az://b").status().message(),
            "az://b: is no URL of an object; it begins with s3://, gs://, https:// or http://");
  EXPECT_EQ(ShownUrl("HTTPS://h/Photos?x"), "HTTPS://h/Photos");
  EXPECT_EQ(JoinUrl("HTTPS://h/lists", "a.jpg"), "https://h/lists/a.jpg");
}

TEST(ObjectUrlTest, AQueryTellsObjectsApartAndASignatureDoesNot) {
  EXPECT_EQ(QueryNumber("https://h/get"), 0u);
  EXPECT_EQ(QueryNumber("s3://b/k?id=1"), 0u);
  for (const char* signature :
       {"X-Amz-Algorithm=A&x-amz-signature=1", "X-Goog-Signature=1", "AWSAccessKeyId=1&Expires=2",
        "Policy=1&Signature=2&Key-Pair-Id=3", "sv=1&se=2&sr=b&sp=r&sig=3"}) {
    EXPECT_EQ(QueryNumber(absl::StrCat("https://h/get?", signature)), 0u) << signature;
    EXPECT_EQ(QueryNumber(absl::StrCat("https://h/get?id=1&", signature)),
              QueryNumber("https://h/get?id=1"));
    EXPECT_EQ(QueryNumber(absl::StrCat("https://h/get?", signature, "&id=1")),
              QueryNumber("https://h/get?id=1"));
  }
  EXPECT_NE(QueryNumber("https://h/get?id=1"), QueryNumber("https://h/get?id=2"));
  EXPECT_NE(QueryNumber("https://h/get?id=1"), 0u);
  EXPECT_EQ(QueryMark("https://h/get?X-Amz-Signature=1"), "");
  const std::string mark = QueryMark("https://h/get?token=secret");
  EXPECT_EQ(mark.size(), 17u);
  EXPECT_EQ(mark.find("secret"), mark.npos);
}

TEST(ObjectUrlTest, ARootHasWhatLiesBelowIt) {
  EXPECT_TRUE(IsBelowUrl("s3://b/train/x", "s3://b/train"));
  EXPECT_TRUE(IsBelowUrl("s3://b/train/x", "s3://b/train/"));
  EXPECT_TRUE(IsBelowUrl("s3://b/train", "s3://b/train"));
  EXPECT_FALSE(IsBelowUrl("s3://b/training/x", "s3://b/train"));
  EXPECT_FALSE(IsBelowUrl("gs://b/train/x", "s3://b/train"));
  EXPECT_FALSE(IsBelowUrl("/train/x", "/train"));
}

TEST(ObjectUrlTest, AListNamesObjectsAsItNamesFiles) {
  const std::string folder = FolderOfUrl("s3://b/lists/train.txt");
  EXPECT_EQ(folder, "s3://b/lists");
  EXPECT_EQ(FolderOfUrl("https://h/lists/train.txt?a=/b"), "https://h/lists");
  EXPECT_EQ(JoinUrl(folder, "cats/a b.jpg"), "s3://b/lists/cats/a b.jpg");
  EXPECT_EQ(JoinUrl(folder, "./../cats//x/../a.jpg"), "s3://b/cats/a.jpg");
  EXPECT_EQ(JoinUrl(folder, "gs://c/a.jpg"), "gs://c/a.jpg");
  EXPECT_EQ(JoinUrl("https://h/lists", "a b%?#ä.jpg"), "https://h/lists/a%20b%25%3F%23%C3%A4.jpg");
  EXPECT_EQ(JoinUrl("s3://b", "a.jpg"), "s3://b/a.jpg");
  EXPECT_EQ(EscapedUrl("s3://b/a[1]*.jpg"), "s3://b/a\\[1]\\*.jpg");
  EXPECT_EQ(WithoutQuery("https://h/p?q"), "https://h/p");
  EXPECT_EQ(WithoutQuery("s3://b/p?q"), "s3://b/p?q");
  // Nothing lies above a bucket.
  EXPECT_FALSE(ParseObjectUrl(JoinUrl(folder, "../../a.jpg")).ok());
  EXPECT_TRUE(NamesObject(folder, "a.jpg"));
  EXPECT_TRUE(NamesObject("/data", "s3://b/a.jpg"));
  EXPECT_FALSE(NamesObject(folder, "/data/a.jpg"));
  EXPECT_FALSE(NamesObject("/data", "a.jpg"));
}

}  // namespace
}  // namespace bulkhead
