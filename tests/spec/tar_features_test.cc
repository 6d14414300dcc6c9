#include "server/spec/tar_features.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/spec/fingerprint.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/source_signature.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead {
namespace {

using ::testing::HasSubstr;

// "ending(step, step)" of each place, or what is wrong.
std::string Places(const std::string& key) {
  const auto places = ParseTarKey(key);
  if (!places.ok()) return std::string(places.status().message());
  return absl::StrJoin(*places, " ", [](std::string* out, const TarPlace& place) {
    absl::StrAppend(out, place.ending, place.is_json ? "(" : "", absl::StrJoin(place.steps, ", "),
                    place.is_json ? ")" : "");
  });
}

TEST(TarFeaturesTest, AKeyNamesEndingsAndValuesOfJson) {
  EXPECT_EQ(Places("cls"), "cls");
  EXPECT_EQ(Places("JPG; png;seg.PNG"), "jpg png seg.png");
  EXPECT_EQ(Places("json"), "json()");
  EXPECT_EQ(Places("json:size/width;meta.json:a~1b/~0/0"),
            "json(size, width) meta.json(a/b, ~, 0)");
  EXPECT_EQ(Places("__key__"), "__key__");
}

TEST(TarFeaturesTest, AKeyThatNamesNothingIsRefused) {
  EXPECT_THAT(Places(""), HasSubstr("names no ending"));
  EXPECT_THAT(Places("jpg;"), HasSubstr("names no ending"));
  EXPECT_THAT(Places(".jpg"), HasSubstr("has the ending `.jpg`"));
  EXPECT_THAT(Places("a/b.jpg"), HasSubstr("has the ending `a/b.jpg`"));
  EXPECT_THAT(Places("txt:width"), HasSubstr("leads into `txt`; only members that end with json"));
  EXPECT_THAT(Places("json:"), HasSubstr("empty name behind `json:`"));
  EXPECT_THAT(Places("json:a//b"), HasSubstr("empty name"));
  EXPECT_THAT(Places(absl::StrCat("json:a", std::string(200, '/'))), HasSubstr("empty name"));
  std::string long_key = "json:a";
  for (int i = 0; i < 64; ++i) long_key += "/a";
  EXPECT_THAT(Places(long_key), HasSubstr("more than 64 names"));
}

v1::PipelineSpec TarSpec(const std::string& features = "") {
  return FromText<v1::PipelineSpec>(absl::StrCat(
      "source { tar { files: 'a.tar' } } batch { size: 1 } outputs: 'label' ", features));
}

constexpr char kUsual[] = R"(
  features { key: 'image' value { key: 'jpg;jpeg;png;webp' bytes {} } }
  features { key: 'label' value { key: 'cls' int64 {} } }
  features { key: 'path' value { key: '__key__' bytes { max_bytes: 256 } } })";

TEST(TarFeaturesTest, NoDeclarationIsTheUsualOne) {
  auto plain = TarSpec();
  const auto written = SourceFeatures(plain.source(), plain.features());
  ASSERT_TRUE(Normalize(plain).ok());
  auto declared = TarSpec(kUsual);
  ASSERT_TRUE(Normalize(declared).ok());
  EXPECT_EQ(plain.DebugString(), declared.DebugString());
  EXPECT_EQ(BytesFingerprint(plain), BytesFingerprint(declared));
  ASSERT_TRUE(written.ok());
  ASSERT_EQ(written->size(), 3u);
  EXPECT_EQ((*written)[0].name, "image");
}

std::string ProblemOf(const std::string& feature) {
  auto spec = TarSpec(absl::StrCat("features { key: 'label' value { int64 {} } } ",
                                   "features { key: 'x' value { ", feature, " } }"));
  return std::string(Normalize(spec).message());
}

TEST(TarFeaturesTest, WhatATarCannotHoldIsRefusedWithWhatToWrite) {
  EXPECT_THAT(ProblemOf("boxes { max_count: 4 }"),
              HasSubstr("features.x.boxes: are four lists of a tf.Example; of a tar read them as "
                        "tensor: {dtype: float32, shape: [-1, 4]"));
  EXPECT_THAT(ProblemOf("bytes { shape: [-1] max_count: 2 max_bytes: 9 }"),
              HasSubstr("features.x.bytes.shape: is for lists of byte strings"));
  EXPECT_THAT(ProblemOf("key: '__key__' int64 {}"),
              HasSubstr("features.x.key: `__key__` is text: read it as bytes"));
  EXPECT_THAT(ProblemOf("key: 'txt:a' int64 {}"), HasSubstr("features.x.key: leads into `txt`"));
  EXPECT_THAT(ProblemOf("int64 { shape: [-1] }"), HasSubstr("features.x.int64.shape"));
}

TEST(TarFeaturesTest, KeysDecideTheBytesAndNotTheOrder) {
  auto one = TarSpec("features { key: 'label' value { key: 'cls' int64 {} } }");
  auto other = TarSpec("features { key: 'label' value { key: 'json:label' int64 {} } }");
  ASSERT_TRUE(Normalize(one).ok() && Normalize(other).ok());
  EXPECT_NE(BytesFingerprint(one), BytesFingerprint(other));
  EXPECT_EQ(OrderFingerprint(one, {}), OrderFingerprint(other, {}));
  auto records = one;
  *records.mutable_source()->mutable_tfrecord()->mutable_files() = one.source().tar().files();
  EXPECT_NE(OrderFingerprint(one, {}), OrderFingerprint(records, {}));
}

}  // namespace
}  // namespace bulkhead
