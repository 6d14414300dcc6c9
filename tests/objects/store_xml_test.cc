#include "server/objects/store_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/objects/answer_head.h"
#include "server/objects/credentials/flat_json.h"

namespace bulkhead {
namespace {

using testing::Pair;
using testing::UnorderedElementsAre;

std::string Page(const std::string& content) {
  return absl::StrCat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
      content, "</ListBucketResult>");
}

std::string WhyNot(const std::string& xml) {
  const absl::StatusOr<Listing> listing = ParseListing(xml);
  return listing.ok() ? "valid" : std::string(listing.status().message());
}

// As the S3 API reference shows it under ListObjectsV2.
TEST(StoreXmlTest, ReadsAPage) {
  const Listing listing = *ParseListing(
      Page("<Name>bucket</Name><Prefix/><KeyCount>205</KeyCount><MaxKeys>1000</MaxKeys>"
           "<IsTruncated>true</IsTruncated><NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J"
           "</NextContinuationToken><Contents><Key>my image&amp;1.jpg</Key>"
           "<LastModified>2009-10-12T17:50:30.500Z</LastModified>"
           "<ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag><Size>434234</Size>"
           "<StorageClass>STANDARD</StorageClass><Owner><ID>1</ID><Size>7</Size></Owner></Contents>"
           "<Contents><Key>b</Key><Size>0</Size></Contents>"
           "<CommonPrefixes><Prefix>photos/</Prefix></CommonPrefixes>"));
  ASSERT_EQ(listing.objects.size(), 2u);
  EXPECT_EQ(listing.objects[0].key, "my image&1.jpg");
  EXPECT_EQ(listing.objects[0].size_bytes, 434234u);
  EXPECT_EQ(listing.objects[0].etag, "\"fba9dede5f27731c9771645a39863328\"");
  EXPECT_EQ(listing.objects[0].mtime_ns, 1255369830'000'000'000);
  EXPECT_EQ(listing.objects[1].key, "b");
  EXPECT_EQ(listing.objects[1].etag, "");
  EXPECT_EQ(listing.next_token, "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J");
  EXPECT_THAT(listing.prefixes, testing::ElementsAre("photos/"));
}

TEST(StoreXmlTest, KeysAreDecodedIfTheStoreEncodesThem) {
  const std::string object = "<Contents><Key>a%0A+%2B%</Key><Size>1</Size></Contents>";
  EXPECT_EQ(ParseListing(Page(object))->objects[0].key, "a%0A+%2B%");
  EXPECT_EQ(ParseListing(Page(object + "<EncodingType>url</EncodingType>"))->objects[0].key,
            "a\n +%");
  const std::string prefix = "<CommonPrefixes><Prefix>a%2B/</Prefix></CommonPrefixes>";
  EXPECT_EQ(ParseListing(Page(prefix + "<EncodingType>url</EncodingType>"))->prefixes[0], "a+/");
}

TEST(StoreXmlTest, WhatIsNoPageIsSaid) {
  EXPECT_EQ(WhyNot(Page("")), "valid");
  EXPECT_EQ(WhyNot("<Error><Code>InternalError</Code></Error>"), "the error InternalError");
  EXPECT_EQ(WhyNot("<html/>"), "no listing of a bucket");
  EXPECT_EQ(WhyNot("<ListBucketResult><Contents>"), "no valid XML");
  EXPECT_EQ(WhyNot(""), "no valid XML");
  EXPECT_EQ(WhyNot(Page("<Contents><Key>k</Key></Contents>")),
            "a listing without the size of an object");
  EXPECT_EQ(WhyNot(Page("<Contents><Key>k</Key><Size>-1</Size></Contents>")),
            "a listing without the size of an object");
  EXPECT_EQ(WhyNot(Page("<IsTruncated>true</IsTruncated>")),
            "a listing that does not say how it continues");
}

TEST(StoreXmlTest, EntitiesDepthAndLengthAreBounded) {
  EXPECT_EQ(WhyNot("<!DOCTYPE l [<!ENTITY e 'x'>]><ListBucketResult>&e;</ListBucketResult>"),
            "no valid XML");
  EXPECT_EQ(WhyNot("<!DOCTYPE l><ListBucketResult/>"), "no valid XML");
  std::string deep, end;
  for (int i = 0; i < 15; ++i) {
    deep += "<a>";
    end += "</a>";
  }
  EXPECT_EQ(WhyNot(Page(deep + end)), "valid");
  EXPECT_EQ(WhyNot(Page("<a>" + deep + end + "</a>")), "no valid XML");
  EXPECT_EQ(WhyNot(Page("<a>" + std::string(16 << 10, 'x') + "</a>")), "valid");
  EXPECT_EQ(WhyNot(Page("<a>" + std::string((16 << 10) + 1, 'x') + "</a>")), "no valid XML");
}

TEST(StoreXmlTest, ReadsErrors) {
  const auto error = ParseStoreError(
      "<Error><Code>AuthorizationHeaderMalformed</Code><Message>m</Message>"
      "<Region>eu-west-1</Region></Error>");
  EXPECT_EQ(error->code, "AuthorizationHeaderMalformed");
  EXPECT_EQ(error->region, "eu-west-1");
  EXPECT_EQ(ParseStoreError("<ErrorResponse><Error><Code>Expired\x1b\nToken</Code></Error>"
                            "</ErrorResponse>"),
            std::nullopt);
  EXPECT_EQ(ParseStoreError("<ErrorResponse><Error><Code>Expired \nToken'\"</Code></Error>"
                            "</ErrorResponse>")
                ->code,
            "ExpiredToken");
  EXPECT_EQ(ParseStoreError("<html><Code>x</Code></html>"), std::nullopt);
  EXPECT_EQ(ParseStoreError("Bad Gateway"), std::nullopt);
}

TEST(FlatJsonTest, ReadsTheAnswersOfMetadataServices) {
  EXPECT_THAT(*ParseFlatJson("{\n  \"Code\" : \"Success\",\"a\\/b\":\"c\\\"\\\\d\", \"n\": 3599 , "
                             "\"t\":true}\n"),
              UnorderedElementsAre(Pair("Code", "Success"), Pair("a/b", "c\"\\d"),
                                   Pair("n", "3599"), Pair("t", "true")));
  EXPECT_THAT(*ParseFlatJson("{}"), UnorderedElementsAre());
  for (const char* text :
       {"", "{", "[]", "{\"a\"}", "{\"a\":}", "{\"a\":\"b}", "{\"a\":\"b\"}x", "{\"a\":[1]}",
        "{\"a\":{}}", "{\"a\":1,}", "{\"a\":\"\\u0041\"}", "{\"a\":1", "{\"a\":\"\\"}) {
    EXPECT_FALSE(ParseFlatJson(text).has_value()) << text;
  }
}

TEST(AnswerHeadTest, ReadsRanges) {
  const auto range = ParseContentRange("bytes 3-7/100");
  EXPECT_EQ(range->begin, 3u);
  EXPECT_EQ(range->end, 8u);
  EXPECT_EQ(*range->total, 100u);
  EXPECT_FALSE(ParseContentRange("bytes 3-7/*")->total.has_value());
  for (const char* text :
       {"", "bytes */100", "bytes 7-3/100", "bytes 3-/100", "3-7/100", "bytes -3-7/100",
        "bytes 3-7", "bytes 3-7/x", "a-/", "bytes 0-18446744073709551615/1"}) {
    EXPECT_FALSE(ParseContentRange(text).has_value()) << text;
  }
}

TEST(AnswerHeadTest, ComparesEtags) {
  EXPECT_EQ(BareEtag("W/\"a\""), "a");
  EXPECT_EQ(BareEtag("a"), "a");
  EXPECT_TRUE(IsStrongEtag("\"a\""));
  EXPECT_FALSE(IsStrongEtag("W/\"a\""));
  EXPECT_FALSE(IsStrongEtag(""));
}

}  // namespace
}  // namespace bulkhead
