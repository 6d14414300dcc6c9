#include "server/data/published_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/error.h"
#include "server/data/published_indexes.h"

namespace bulkhead {
namespace {

using testing::ElementsAre;

internal::v1::ResolvedFile ObjectAt(const std::string& url, const std::string& etag = "\"e1\"") {
  internal::v1::ResolvedFile file;
  file.mutable_object()->set_url(url);
  file.mutable_object()->set_etag(etag);
  file.set_size_bytes(1000);
  file.set_mtime_ns(5);
  return file;
}

std::string ClaimOfTfrecord(const internal::v1::ResolvedFile& file,
                            v1::Compression compression = v1::COMPRESSION_NONE) {
  v1::Source source;
  source.mutable_tfrecord()->set_compression(compression);
  return ClaimOf(source, file);
}

// What comes of `published`, in pieces of so many bytes.
absl::StatusOr<std::string> FromPublished(const std::string& claim, absl::string_view published,
                                          size_t step = 5) {
  PublishedReader reader(claim);
  std::string index;
  const auto write = [&](absl::string_view bytes) {
    index.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  };
  for (size_t at = 0; at < published.size(); at += step) {
    BULKHEAD_RETURN_IF_ERROR(reader.Add(published.substr(at, step), write));
  }
  BULKHEAD_RETURN_IF_ERROR(reader.Finish());
  return index;
}

TEST(PublishedIndexTest, ReadsWhatWasWritten) {
  const std::string claim = ClaimOfTfrecord(ObjectAt("s3://b/k"));
  const std::string index("an\0index\n", 9);
  const std::string published = ToPublished(claim, index);
  EXPECT_EQ(published.substr(0, 15), "bulkhead index ");
  for (const size_t step : {size_t{1}, size_t{3}, published.size() - 1, published.size()}) {
    EXPECT_EQ(FromPublished(claim, published, step).value(), index) << step;
  }
}

TEST(PublishedIndexTest, BelongsToOneStateOfAnObjectReadInOneWay) {
  const std::string claim = ClaimOfTfrecord(ObjectAt("s3://b/k"));
  const std::string published = ToPublished(claim, "index");
  const auto fails = [&](const std::string& other) {
    return FromPublished(other, published).status().code() == absl::StatusCode::kFailedPrecondition;
  };
  EXPECT_TRUE(fails(ClaimOfTfrecord(ObjectAt("s3://b/k", "\"e2\""))));
  EXPECT_TRUE(fails(ClaimOfTfrecord(ObjectAt("s3://b/k"), v1::COMPRESSION_GZIP)));
  internal::v1::ResolvedFile larger = ObjectAt("s3://b/k");
  larger.set_size_bytes(1001);
  EXPECT_TRUE(fails(ClaimOfTfrecord(larger)));
  v1::Source tar;
  tar.mutable_tar()->set_compression(v1::COMPRESSION_NONE);
  EXPECT_TRUE(fails(ClaimOf(tar, ObjectAt("s3://b/k"))));
  // A copy of the object, made later and elsewhere, is the same.
  internal::v1::ResolvedFile copy = ObjectAt("gs://c/k");
  copy.set_mtime_ns(6);
  EXPECT_FALSE(fails(ClaimOfTfrecord(copy)));
}

TEST(PublishedIndexTest, NoticesDamage) {
  const std::string claim = ClaimOfTfrecord(ObjectAt("s3://b/k"));
  const std::string published = ToPublished(claim, "index");
  for (size_t i = claim.size(); i < published.size(); ++i) {
    std::string damaged = published;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_EQ(FromPublished(claim, damaged).status().code(), absl::StatusCode::kDataLoss) << i;
    EXPECT_FALSE(FromPublished(claim, published.substr(0, i)).ok()) << i;
  }
  EXPECT_FALSE(FromPublished(claim, published + "x").ok());
}

TEST(PublishedIndexTest, HasABound) {
  EXPECT_EQ(MostPublishedBytes(0), 1u << 20);
  EXPECT_EQ(MostPublishedBytes(2u << 20), 2u << 20);
  EXPECT_EQ(MostPublishedBytes(uint64_t{1} << 40), kMostPublishedBytes);
}

TEST(PublishedIndexTest, LiesBesideObjectsOfBucketsWithEtags) {
  EXPECT_TRUE(CanBePublished(ObjectAt("s3://b/k")));
  EXPECT_TRUE(CanBePublished(ObjectAt("gs://b/k")));
  EXPECT_FALSE(CanBePublished(ObjectAt("https://host/k?signature")));
  EXPECT_FALSE(CanBePublished(ObjectAt("s3://b/k", "")));
  EXPECT_FALSE(CanBePublished({}));
}

TEST(PublishedIndexesTest, OnePatternFindsThoseOfAFolder) {
  EXPECT_THAT(PatternsOfPublished({"s3://b/x/part-02", "s3://b/x/part-10", "s3://b/y/one"}),
              ElementsAre("s3://b/x/part-*.bulkhead-index", "s3://b/y/one.bulkhead-index"));
  EXPECT_THAT(PatternsOfPublished({"s3://b/a", "s3://b/ab"}),
              ElementsAre("s3://b/a*.bulkhead-index"));
}

TEST(PublishedIndexesTest, KeysWithWildcardsAreFoundByTheirNames) {
  EXPECT_THAT(PatternsOfPublished({"s3://b/a[1]?"}),
              ElementsAre("s3://b/a\\[1]\\?.bulkhead-index"));
  // Without a wildcard a pattern is the name itself.
  EXPECT_THAT(PatternsOfPublished({"s3://b/a\\b"}), ElementsAre("s3://b/a\\b.bulkhead-index"));
  EXPECT_THAT(PatternsOfPublished({"s3://b/a*1", "s3://b/a*2"}),
              ElementsAre("s3://b/a\\**.bulkhead-index"));
}

TEST(PublishedIndexTest, AnErrorOfWhoTakesItIsPassedOn) {
  PublishedReader reader("claim\n");
  const absl::Status status = reader.Add(ToPublished("claim\n", "index"), [](absl::string_view) {
    return absl::AbortedError("full");
  });
  EXPECT_EQ(status, absl::AbortedError("full"));
}

}  // namespace
}  // namespace bulkhead
