#include "server/spec/source_signature.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "server/base/element_type.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<FeatureSignature>> Features(const v1::PipelineSpec& spec) {
  return SourceFeatures(spec.source(), spec.features());
}

// "label:int64[]", "boxes:float32[64,4]~" (variable), "image:bytes<=0".
std::vector<std::string> Summaries(const absl::StatusOr<std::vector<FeatureSignature>>& features) {
  if (!features.ok()) return {features.status().ToString()};
  std::vector<std::string> lines;
  for (const FeatureSignature& feature : *features) {
    if (feature.kind == FeatureSignature::Kind::kEncoded) {
      lines.push_back(
          absl::StrCat(feature.name, ":", DTypeName(feature.dtype), "<=", feature.max_bytes));
    } else {
      lines.push_back(absl::StrCat(feature.name, ":", DTypeName(feature.dtype), "[",
                                   absl::StrJoin(feature.shape, ","), "]",
                                   feature.variable ? "~" : ""));
    }
  }
  return lines;
}

TEST(SourceFeaturesTest, ExampleFeaturesAreSortedAndBounded) {
  const auto spec = RecordSpec(R"(
    features { key: 'label' value { int64 {} } }
    features { key: 'image' value { bytes {} } }
    features { key: 'boxes' value { tensor { dtype: DTYPE_FLOAT32 shape: [-1, 4] max_count: 64 } } }
    features { key: 'pair' value { float { shape: 2 } } }
    features { key: 'text' value { bytes { max_bytes: 12 } } })");
  EXPECT_THAT(Summaries(Features(spec)),
              ElementsAre("boxes:float32[64,4]~", "image:bytes<=0", "label:int64[]",
                          "pair:float32[2]", "text:bytes<=12"));
}

TEST(SourceFeaturesTest, ByteStringsHaveLengthsAndListsRows) {
  const auto spec = RecordSpec(R"(
    features { key: 'z' value { bytes { max_bytes: 12 length: 'a' } } }
    features { key: 'names' value { bytes { shape: -1 max_count: 5 max_bytes: 8 length: 'n' } } }
    features { key: 'pair' value { bytes { shape: 2 max_bytes: 3 } } }
    features { key: 'boxes' value { boxes { max_count: 9 } } })");
  EXPECT_THAT(Summaries(Features(spec)),
              ElementsAre("a:int64[]", "boxes:float32[9,4]~", "n:int64[5]~", "names:uint8[5,8]~",
                          "pair:uint8[2,3]", "z:bytes<=12"));
  EXPECT_EQ(DeclarationOf(spec.features(), "n"), "names");
  EXPECT_EQ(DeclarationOf(spec.features(), "names"), "names");
  EXPECT_EQ(DeclarationOf(spec.features(), "m"), "");
}

TEST(SourceFeaturesTest, ALengthHasANameOfItsOwn) {
  for (const char* other : {"int64 {}", "bytes { length: 'label' }"}) {
    const auto spec = RecordSpec(absl::StrCat(
        "features { key: 'text' value { bytes { length: 'label' } } } features { key: '",
        *other == 'i' ? "label" : "other", "' value { ", other, " } }"));
    const auto features = Features(spec);
    EXPECT_THAT(std::string(features.status().message()),
                HasSubstr("`label` is the name of another feature"));
    EXPECT_THAT(ErrorPath(features.status()), testing::EndsWith(".bytes.length"));
  }
}

TEST(SourceFeaturesTest, ImageListHasItsColumnsAndThePath) {
  EXPECT_THAT(
      Summaries(Features(FromText<v1::PipelineSpec>(
          "source { image_list { path: 'a.txt' images: ['left', 'right'] labels: ['x', 'y'] "
          "label_dtype: DTYPE_FLOAT32 max_path_bytes: 10 } }"))),
      ElementsAre("left:bytes<=0", "path:bytes<=10", "right:bytes<=0", "x:float32[]",
                  "y:float32[]"));
}

TEST(SourceFeaturesTest, ImageListHasDefaults) {
  EXPECT_THAT(
      Summaries(Features(FromText<v1::PipelineSpec>("source { image_list { path: 'a.txt' } }"))),
      ElementsAre("image:bytes<=0", "label:int64[]", "path:bytes<=256"));
  EXPECT_THAT(Summaries(Features(FromText<v1::PipelineSpec>(
                  "source { image_list { path: 'a.txt' unlabeled: true } }"))),
              ElementsAre("image:bytes<=0", "path:bytes<=256"));
}

TEST(SourceFeaturesTest, FolderAndRange) {
  EXPECT_THAT(Summaries(Features(FolderSpec(""))),
              ElementsAre("image:bytes<=0", "label:int64[]", "path:bytes<=256"));
  EXPECT_THAT(Summaries(Features(FromText<v1::PipelineSpec>(
                  "source { image_folder { path: 'a' unlabeled: true } }"))),
              ElementsAre("image:bytes<=0", "path:bytes<=256"));
  EXPECT_THAT(Summaries(Features(FromText<v1::PipelineSpec>("source { range { size: 9 } }"))),
              ElementsAre("index:int64[]"));
}

TEST(SourceFeaturesTest, RefusesWhatHasNoBoundOrNoSense) {
  const struct {
    const char* feature;
    const char* path;
  } cases[] = {
      {"", "features.x"},
      {"int64 { shape: -1 }", "features.x.int64.shape"},
      {"int64 { shape: 0 }", "features.x.int64.shape"},
      {"float { shape: [2, -1] max_count: 3 }", "features.x.float.shape"},
      {"float { shape: -2 max_count: 3 }", "features.x.float.shape"},
      {"float { shape: 2 max_count: 3 }", "features.x.float.max_count"},
      {"int64 { shape: -1 max_count: 9223372036854775808 }", "features.x.int64.max_count"},
      {"tensor { shape: 2 }", "features.x.tensor.dtype"},
      {"tensor { dtype: DTYPE_BYTES shape: 2 }", "features.x.tensor.dtype"},
      {"int64 { shape: [-1, 4294967296, 4294967296] max_count: 1 }", "features.x.int64.shape"},
      {"bytes { shape: -1 max_bytes: 4 }", "features.x.bytes.shape"},
      {"bytes { shape: -1 max_count: 4 }", "features.x.bytes.max_bytes"},
      {"bytes { max_count: 4 max_bytes: 4 }", "features.x.bytes.max_count"},
      {"bytes { shape: -1 max_count: 1048577 max_bytes: 1048576 }", "features.x.bytes.max_bytes"},
      {"bytes { shape: 2 max_bytes: 18446744073709551615 }", "features.x.bytes.max_bytes"},
      {"bytes { length: 'x' }", "features.x.bytes.length"},
      {"boxes {}", "features.x.boxes.max_count"},
  };
  for (const auto& [feature, path] : cases) {
    const auto spec = RecordSpec(absl::StrCat("features { key: 'x' value { ", feature, " } }"));
    EXPECT_EQ(ErrorPath(Features(spec).status()), path) << feature;
  }
}

TEST(SourceFeaturesTest, RefusesTwoFeaturesOfOneName) {
  const auto features = Features(FromText<v1::PipelineSpec>(
      "source { image_list { path: 'a.txt' images: 'image' labels: 'path' } }"));
  EXPECT_THAT(std::string(features.status().message()), HasSubstr("`path`"));
}

TEST(SourceFeaturesTest, FeaturesGoWithTfRecordOnly) {
  EXPECT_EQ(ErrorPath(Features(RecordSpec("")).status()), "features");
  EXPECT_EQ(ErrorPath(Features(FolderSpec("features { key: 'x' value { int64 {} } }")).status()),
            "features");
  EXPECT_EQ(ErrorPath(Features(v1::PipelineSpec()).status()), "source");
}

}  // namespace
}  // namespace bulkhead
