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
