// What a mosaic makes of a sample's features, where it may stand, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "server/spec/stage_signature.h"
#include "server/stages/mosaic/declare.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead::mosaic_kinds_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string In(const std::string& stage) { return "stages { " + stage + " } "; }

constexpr char kFeatures[] = R"(
  features { key: "image" value { bytes {} } }
  features { key: "mask" value { bytes {} } }
  features { key: "boxes" value { float { shape: [-1, 4] max_count: 8 } } }
  features { key: "labels" value { int64 { shape: [-1] max_count: 8 } } }
  features { key: "few" value { int64 { shape: [-1] max_count: 7 } } }
  features { key: "id" value { int64 {} } }
  features { key: "points" value { float { shape: [17, 2] } } }
)";
const std::string& Declared() {
  static const auto& text = *new std::string(
      In("decode_image {}") + In("decode_image { input: 'mask' color: COLOR_GRAY }") +
      In("boxes { format: BOX_FORMAT_XYXY }") + In("keypoints { input: 'points' }") +
      In("mask {}"));
  return text;
}
// Its place behind those.
constexpr char kAt[] = "stages[5].mosaic";

absl::StatusOr<PipelineSignature> Inferred(const std::string& stages,
                                           const std::string& outputs = "outputs: 'id'") {
  v1::PipelineSpec spec = RecordSpec(kFeatures + stages + outputs);
  const absl::Status status = Normalize(spec);
  if (!status.ok()) return status;
  return InferSignature(spec);
}

// Where a spec is wrong and what is said about it; empty when it is right.
std::string Problem(const std::string& stages) {
  const absl::Status status = Inferred(stages).status();
  return status.ok() ? "" : absl::StrCat(ErrorPath(status), ": ", status.message());
}

FeatureSignature After(const std::string& stages, const std::string& name) {
  const auto signature = Inferred(stages);
  EXPECT_TRUE(signature.ok()) << signature.status();
  if (!signature.ok()) return {};
  for (const FeatureSignature& feature : signature->sources[0].features_after.back()) {
    if (feature.name == name) return feature;
  }
  ADD_FAILURE() << "no feature " << name;
  return {};
}

TEST(MosaicKindTest, GivesOneSizeAndFourTimesTheRows) {
  const std::string stages = Declared() + In("mosaic { size: [64, 96] with: 'labels' }");
  EXPECT_THAT(After(stages, "image").shape, ElementsAre(64, 96, 3));
  EXPECT_THAT(After(stages, "mask").shape, ElementsAre(64, 96, 1));
  EXPECT_THAT(After(stages, "boxes").shape, ElementsAre(32, 4));
  EXPECT_THAT(After(stages, "labels").shape, ElementsAre(32));
  EXPECT_TRUE(After(stages, "labels").variable);
  EXPECT_EQ(After(stages, "labels").path, kAt);
  EXPECT_FALSE(After(stages, "labels").annotation.has_value());
  // A fixed number of rows is that of a sample alone.
  EXPECT_THAT(After(stages, "points").shape, ElementsAre(68, 2));
  EXPECT_TRUE(After(stages, "points").variable);
  EXPECT_TRUE(After(stages, "points").annotation->lost_at.empty());
  // Others stay as they are.
  EXPECT_THAT(After(stages, "few").shape, ElementsAre(7));
  EXPECT_EQ(After(stages, "few").path, "features.few.int64");
  EXPECT_EQ(Problem(stages + In("random_iou_crop {}") + In("resize { size: 9 }") +
                    In("sanitize_boxes { with: 'labels' }")),
            "");
}

TEST(MosaicKindTest, TakesTheImageWhatBelongsToItAndWhatIsNamed) {
  v1::Mosaic mosaic;
  mosaic.add_with("labels");
  const auto signature = Inferred(Declared());
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_THAT(MosaicFeatures(mosaic, signature->sources[0].features_after.back()),
              ElementsAre("image", "boxes", "mask", "points", "labels"));
  EXPECT_THAT(MosaicFeatures(mosaic, signature->sources[0].features_after[1]),
              ElementsAre("image", "labels"));
}

TEST(MosaicKindTest, HasDefaults) {
  v1::PipelineSpec spec = FolderSpec("stages { decode_image {} } stages { mosaic { size: 32 } }");
  ASSERT_TRUE(Normalize(spec).ok());
  EXPECT_EQ(
      spec.stages(1).mosaic().ShortDebugString(),
      "input: \"image\" size: 32 size: 32 center: 0.25 center: 0.75 fill: 114 probability: 1");
  EXPECT_TRUE(IsRandomStage(spec.stages(1)));
  spec.mutable_stages(1)->mutable_mosaic()->set_probability(0);
  EXPECT_FALSE(IsRandomStage(spec.stages(1)));
}

TEST(MosaicKindTest, RefusesOptionsThatMakeNoSense) {
  const auto with = [](const std::string& options) {
    return Problem(Declared() + In("mosaic { " + options + " }"));
  };
  EXPECT_THAT(with(""), HasSubstr("stages[5].mosaic.size"));
  EXPECT_THAT(with("size: 0"), HasSubstr("stages[5].mosaic.size"));
  EXPECT_EQ(with("size: 9 center: [0, 1]"), "");
  EXPECT_EQ(with("size: 9 center: [0.5, 0.5]"), "");
  for (const char* center : {"0.5", "[0.6, 0.5]", "[-0.1, 0.5]", "[0.5, 1.1]", "[nan, 0.5]"}) {
    EXPECT_THAT(with(absl::StrCat("size: 9 center: ", center)),
                HasSubstr("stages[5].mosaic.center"))
        << center;
  }
  EXPECT_THAT(with("size: 9 fill: 256"), HasSubstr("stages[5].mosaic.fill"));
  EXPECT_THAT(with("size: 9 fill: [1, 2]"), HasSubstr("stages[5].mosaic.fill"));
  EXPECT_THAT(with("size: 9 probability: 1.5"), HasSubstr("stages[5].mosaic.probability"));
  EXPECT_THAT(with("size: 9 with: ['labels', 'labels']"), HasSubstr("stages[5].mosaic.with"));
  EXPECT_THAT(with("size: 9 with: 'lables'"), HasSubstr("stages[5].mosaic.with[0]"));
}

TEST(MosaicKindTest, RefusesRowsThatCannotGoAlong) {
  const auto with = [](const std::string& name) {
    return Problem(Declared() + In("mosaic { size: 9 with: ['labels', '" + name + "'] }"));
  };
  EXPECT_THAT(with("few"), HasSubstr("stages[5].mosaic.with[1]: "));
  EXPECT_THAT(with("few"), HasSubstr("max_count"));
  EXPECT_THAT(with("id"), HasSubstr("has no rows"));
  EXPECT_THAT(with("boxes"), HasSubstr("goes along by itself"));
  EXPECT_THAT(with("mask"), HasSubstr("goes along by itself"));
  // Nobody says what has as many rows where there are no boxes.
  EXPECT_EQ(Problem(In("decode_image {}") + In("mosaic { size: 9 with: ['labels', 'few'] }")), "");
}

TEST(MosaicKindTest, RefusesWhatIsNoImageAndWhatCannotFollow) {
  EXPECT_THAT(Problem(In("mosaic { size: 9 }")), HasSubstr("put decode_image before it"));
  EXPECT_THAT(
      Problem(In("decode_image {}") + In("normalize { divide: 2 }") + In("mosaic { size: 9 }")),
      HasSubstr("stages[2].mosaic.input"));
  const std::string parted =
      In("python { function: 'm:f' inputs: 'image' outputs { name: 'image' dtype: DTYPE_UINT8 "
         "shape: [20, 30, 3] } }");
  EXPECT_THAT(Problem(Declared() + parted + In("mosaic { size: 9 }")),
              HasSubstr("separated by stages[5].python"));
  // A mask by itself.
  EXPECT_THAT(
      Problem(Declared() + In("mosaic { input: 'mask' size: 9 }") + In("resize { size: 9 }")),
      HasSubstr("separated by stages[5].mosaic"));
}

TEST(MosaicKindTest, StandsOnceInTheWayOfASample) {
  const std::string twice = In("decode_image {}") + In("mosaic { size: 9 }");
  EXPECT_THAT(Problem(twice + In("mosaic { size: 9 }")),
              HasSubstr("stages[2].mosaic: is the second mosaic"));
}

TEST(MosaicKindTest, StandsBehindACacheAndNotBeforeOne) {
  const std::string decode = In("decode_image {}");
  EXPECT_EQ(Problem(decode + In("cache {}") + In("mosaic { size: 9 }")), "");
  EXPECT_THAT(Problem(decode + In("mosaic { size: 9 }") + In("cache {}")),
              HasSubstr("stages[2].cache: would keep what stages[1].mosaic drew"));
}

std::string Mixture(const std::string& second, const std::string& common) {
  const std::string features =
      "features { key: 'image' value { bytes {} } } "
      "features { key: 'boxes' value { float { shape: [-1, 4] max_count: 8 } } } ";
  const auto source = [&](const std::string& stages) {
    return "sources { weight: 0.5 source { tfrecord { files: 'a' } } order { global {} } " +
           features + stages + " } ";
  };
  const std::string own = In("decode_image {}") + In("boxes { format: BOX_FORMAT_XYXY }");
  v1::PipelineSpec spec =
      FromText<v1::PipelineSpec>("source { mixture { " + source(own) + source(second) + "} } " +
                                 "batch { size: 2 } outputs: 'image' " + common);
  absl::Status status = Normalize(spec);
  if (status.ok()) status = InferSignature(spec).status();
  return status.ok() ? "" : absl::StrCat(ErrorPath(status), ": ", status.message());
}

TEST(MosaicKindTest, MixesSourcesThatOfferTheSame) {
  const std::string mosaic = In("mosaic { size: 9 }");
  const std::string boxes = In("decode_image {}") + In("boxes { format: BOX_FORMAT_XYXY }");
  EXPECT_EQ(Mixture(boxes, mosaic), "");
  // The boxes are no output, but come along.
  const std::string others = In("decode_image {}") + In("boxes { format: BOX_FORMAT_XYWH }");
  EXPECT_EQ(Mixture(others, In("resize { size: 9 }")), "");
  EXPECT_THAT(Mixture(others, mosaic), HasSubstr("xywh boxes of `image`"));
  EXPECT_THAT(Mixture(In("decode_image {}"), mosaic), HasSubstr("`boxes` of sources[1]"));
  EXPECT_THAT(Mixture(boxes + mosaic, ""),
              HasSubstr("source.mixture.sources[1].stages[2].mosaic: stands among one source's"));
}

TEST(MosaicKindTest, PlansMemoryForTheCanvasAndForWhatIsSetAside) {
  const std::string decode = In("decode_image { max_pixels: 1000000 }") +
                             In("decode_image { input: 'mask' color: COLOR_GRAY }");
  const auto bytes = [&](const std::string& stages) {
    const auto signature = Inferred(decode + stages, "outputs: 'image'");
    EXPECT_TRUE(signature.ok()) << signature.status();
    return signature.ok() ? signature->sample_bytes : 0;
  };
  // The canvas and everything that is no part of it: the mask's pixels above all.
  const uint64_t rows = 8 * 16 + 8 * 8 + 7 * 8 + 8 + 17 * 8;
  EXPECT_EQ(bytes(In("mosaic { size: [64, 96] }")),
            bytes(In("center_crop { size: [64, 96] }")) + kDefaultMaxPixels + rows);
}

}  // namespace
}  // namespace bulkhead::mosaic_kinds_test
