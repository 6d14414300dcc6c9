// What the geometry stages' options may be, and what sizes come out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead::geometry_kinds_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::PipelineSpec Spec(const std::string& stages) {
  return FolderSpec("stages { decode_image {} } " + stages);
}

// The normalized form of stage 1.
v1::Stage Normalized(const std::string& stages) {
  v1::PipelineSpec spec = Spec(stages);
  const absl::Status status = Normalize(spec);
  EXPECT_TRUE(status.ok()) << status;
  return spec.stages(1);
}

// Where a spec is wrong and what is said about it; empty when it is right.
std::string Problem(const std::string& stages) {
  v1::PipelineSpec spec = Spec(stages);
  absl::Status status = Normalize(spec);
  if (status.ok()) status = InferSignature(spec).status();
  return status.ok() ? "" : absl::StrCat(ErrorPath(status), ": ", status.message());
}

// The image's shape in a batch.
std::vector<int64_t> ShapeAfter(const std::string& stages) {
  v1::PipelineSpec spec = Spec(stages);
  EXPECT_TRUE(Normalize(spec).ok());
  const auto signature = InferSignature(spec);
  EXPECT_TRUE(signature.ok()) << signature.status();
  if (!signature.ok()) return {};
  for (const v1::TensorSchema& tensor : signature->schema.tensors()) {
    if (tensor.name() == "image") return {tensor.shape().begin(), tensor.shape().end()};
  }
  return {};
}

std::string Resize(const std::string& options) { return "stages { resize { " + options + " } }"; }

TEST(ResizeKindTest, WantsTheNewSizeOnce) {
  EXPECT_THAT(Problem(Resize("")), HasSubstr("stages[1].resize.size: "));
  EXPECT_THAT(Problem(Resize("size: 8 factor: 2")), HasSubstr("names the new size twice"));
  EXPECT_THAT(Problem(Resize("shorter_side: 8 longer_side: 8")), HasSubstr("twice"));
  EXPECT_THAT(Problem(Resize("shorter_side: 65536")), HasSubstr("resize.shorter_side: "));
  EXPECT_THAT(Problem(Resize("longer_side: 65536")), HasSubstr("resize.longer_side: "));
  EXPECT_THAT(Problem(Resize("shorter_side: 8 max_size: 7")), HasSubstr("resize.max_size: "));
  EXPECT_THAT(Problem(Resize("longer_side: 8 max_size: 9")), HasSubstr("goes with shorter_side"));
  for (const char* factor : {"-1", "1000.5", "nan", "inf"}) {
    EXPECT_THAT(Problem(Resize(absl::StrCat("factor: ", factor))), HasSubstr("resize.factor: "));
  }
}

TEST(ResizeKindTest, ComputedSizesNeedACropBehindThem) {
  for (const char* way : {"shorter_side: 8", "longer_side: 8", "factor: 0.5",
                          "shorter_side: 8 max_size: 8 rounding: ROUNDING_ROUND"}) {
    EXPECT_NE(Problem(Resize(way)), "") << way;
    EXPECT_THAT(ShapeAfter(Resize(way) + "stages { center_crop { size: 6 } }"),
                ElementsAre(6, 6, 3));
  }
}

TEST(ResizeKindTest, OptionsGoTogether) {
  EXPECT_THAT(Problem(Resize("size: 8 rounding: ROUNDING_ROUND")), HasSubstr("resize.rounding: "));
  EXPECT_THAT(Problem(Resize("size: 8 antialias: true interpolation: INTERPOLATION_AREA")),
              HasSubstr("resize.antialias: "));
  EXPECT_THAT(Problem(Resize("size: 8 antialias: true interpolation: INTERPOLATION_NEAREST")),
              HasSubstr("resize.antialias: "));
  EXPECT_EQ(Problem(Resize("size: 8 antialias: true interpolation: INTERPOLATION_CUBIC")), "");
  EXPECT_THAT(Problem(Resize("size: 8 antialias: true centers: PIXEL_CENTERS_CORNER")),
              HasSubstr("resize.centers: "));
  EXPECT_THAT(
      Problem(Resize("size: 8 interpolation: INTERPOLATION_CUBIC centers: PIXEL_CENTERS_ALIGNED")),
      HasSubstr("resize.centers: "));
  EXPECT_EQ(
      Problem(Resize("size: 8 interpolation: INTERPOLATION_NEAREST centers: PIXEL_CENTERS_CORNER")),
      "");
}

TEST(RandomResizedCropKindTest, AntialiasGoesWithLinearAndCubic) {
  const auto crop = [](const std::string& options) {
    return "stages { random_resized_crop { size: 8 antialias: true " + options + " } }";
  };
  EXPECT_EQ(Problem(crop("")), "");
  EXPECT_EQ(Problem(crop("interpolation: INTERPOLATION_CUBIC")), "");
  for (const char* interpolation : {"INTERPOLATION_AREA", "INTERPOLATION_NEAREST"}) {
    EXPECT_THAT(Problem(crop(absl::StrCat("interpolation: ", interpolation))),
                HasSubstr("random_resized_crop.antialias: goes with linear and cubic"));
  }
}

TEST(ResizeKindTest, DefaultsHaveOneSpelling) {
  const auto same = [](const std::string& one, const std::string& other) {
    return Normalized(Resize(one)).SerializeAsString() ==
           Normalized(Resize(other)).SerializeAsString();
  };
  EXPECT_TRUE(same("size: 8", "size: [8, 8] centers: PIXEL_CENTERS_HALF_PIXEL"));
  EXPECT_TRUE(same("factor: 2", "factor: 2 rounding: ROUNDING_TRUNCATE"));
  EXPECT_FALSE(same("factor: 2", "factor: 2 rounding: ROUNDING_ROUND"));
}

TEST(RandomCropKindTest, MustFitWithItsPadding) {
  const std::string resize = Resize("size: [20, 30]");
  EXPECT_THAT(ShapeAfter("stages { random_crop { size: [9, 8] } }"), ElementsAre(9, 8, 3));
  EXPECT_THAT(Problem(resize + "stages { random_crop { size: [21, 30] } }"),
              HasSubstr("stages[2].random_crop.size: "));
  EXPECT_THAT(
      ShapeAfter(resize + "stages { random_crop { size: [22, 30] padding: [1, 1, 0, 0] } }"),
      ElementsAre(22, 30, 3));
  EXPECT_THAT(Problem(resize + "stages { random_crop { size: [22, 31] padding: [1, 1, 0, 0] } }"),
              HasSubstr("random_crop.size: "));
  EXPECT_THAT(Problem("stages { random_crop { size: 8 padding: [1, 2] } }"),
              HasSubstr("random_crop.padding: has 2 numbers"));
  EXPECT_THAT(Problem("stages { random_crop { size: 8 padding: 65536 } }"),
              HasSubstr("random_crop.padding: "));
  EXPECT_THAT(Problem("stages { random_crop { size: 8 padding: 1 fill: 256 } }"),
              HasSubstr("random_crop.fill: "));
  EXPECT_THAT(Problem("stages { random_crop { size: 8 padding: 1 fill: [1, 2] } }"),
              HasSubstr("random_crop.fill: has 2 numbers"));
  EXPECT_THAT(Normalized("stages { random_crop { size: 8 padding: 3 } }").random_crop().padding(),
              ElementsAre(3, 3, 3, 3));
}

TEST(PadKindTest, TakesPaddingOrASize) {
  const std::string resize = Resize("size: [20, 30]");
  EXPECT_THAT(ShapeAfter(resize + "stages { pad { padding: [1, 2, 3, 4] } }"),
              ElementsAre(23, 37, 3));
  EXPECT_THAT(ShapeAfter("stages { pad { size: [40, 50] } }"), ElementsAre(40, 50, 3));
  EXPECT_NE(Problem("stages { pad { padding: 1 } }"), "");  // of an image of any size
  EXPECT_THAT(Problem("stages { pad { padding: 1 size: 8 } }"), HasSubstr("give one of them"));
  EXPECT_THAT(Problem("stages { pad {} }"), HasSubstr("pad.padding: "));
  EXPECT_THAT(Problem(resize + "stages { pad { size: [19, 40] } }"), HasSubstr("pad.size: "));
  EXPECT_THAT(Problem(resize + "stages { pad { size: 40 fill: [1, 2] } }"),
              HasSubstr("pad.fill: "));
}

TEST(LetterboxKindTest, GivesItsSizeWithGrayAroundIt) {
  EXPECT_THAT(ShapeAfter("stages { letterbox { size: [40, 50] } }"), ElementsAre(40, 50, 3));
  EXPECT_THAT(Normalized("stages { letterbox { size: 40 } }").letterbox().fill(), ElementsAre(114));
  EXPECT_THAT(Problem("stages { letterbox {} }"), HasSubstr("letterbox.size: "));
}

TEST(FiveCropKindTest, GivesAStackThatNumberStagesTake) {
  const std::string five = "stages { five_crop { size: [5, 4] } } ";
  const std::string planar = "stages { layout { to: IMAGE_LAYOUT_NCHW } } ";
  const std::string packed = "stages { layout { to: IMAGE_LAYOUT_NHWC } } ";
  EXPECT_THAT(ShapeAfter(five), ElementsAre(5, 5, 4, 3));
  EXPECT_THAT(ShapeAfter(five + planar), ElementsAre(5, 3, 5, 4));
  EXPECT_THAT(ShapeAfter(five + planar + packed), ElementsAre(5, 5, 4, 3));
  EXPECT_THAT(ShapeAfter(five + planar + "stages { normalize { mean: [1, 2, 3] } }"),
              ElementsAre(5, 3, 5, 4));
  EXPECT_THAT(Problem(five + planar + "stages { normalize { mean: [1, 2, 3, 4] } }"),
              HasSubstr("give one number, or 3 (one per channel)"));
  EXPECT_THAT(Problem(five + "stages { resize { size: 3 } }"),
              HasSubstr("put resize before five_crop"));
  EXPECT_THAT(Problem("stages { resize { size: 4 } } " + five), HasSubstr("crop less"));
  EXPECT_THAT(Problem("stages { five_crop {} }"), HasSubstr("five_crop.size: is required"));
}

TEST(FlipKindTest, ProbabilitiesLieBetween0And1) {
  EXPECT_EQ(Normalized("stages { random_vertical_flip {} }").random_vertical_flip().probability(),
            0.5);
  EXPECT_THAT(Problem("stages { random_vertical_flip { probability: 1.1 } }"),
              HasSubstr("random_vertical_flip.probability: "));
}

v1::PipelineSpec Frames(const std::string& stages) {
  return RecordSpec(
      "features { key: 'a' value { bytes {} } } features { key: 'b' value { bytes {} } } "
      "stages { decode_image { input: 'a' } } stages { decode_image { input: 'b' } } " +
      stages);
}

std::string FramesProblem(const std::string& stages) {
  v1::PipelineSpec spec = Frames(stages);
  absl::Status status = Normalize(spec);
  if (status.ok()) status = InferSignature(spec).status();
  return status.ok() ? "" : absl::StrCat(ErrorPath(status), ": ", status.message());
}

TEST(ConcatKindTest, InputsBecomeOneImage) {
  v1::PipelineSpec spec = Frames(
      "stages { concat { inputs: ['b', 'a'] output: 'image' } } stages { resize { size: 8 } }");
  ASSERT_TRUE(Normalize(spec).ok());
  const auto signature = InferSignature(spec);
  ASSERT_TRUE(signature.ok()) << signature.status();
  ASSERT_EQ(signature->schema.tensors_size(), 1);
  EXPECT_EQ(signature->schema.tensors(0).name(), "image");
  EXPECT_THAT(signature->schema.tensors(0).shape(), ElementsAre(8, 8, 6));
}

TEST(ConcatKindTest, RefusesWhatCannotBeJoined) {
  const std::string concat = "stages { concat { inputs: ['a', 'b'] output: 'image' } }";
  EXPECT_THAT(FramesProblem("stages { concat { inputs: 'a' output: 'image' } }"),
              HasSubstr("concat.inputs: needs"));
  EXPECT_THAT(FramesProblem("stages { concat { inputs: ['a', 'a'] output: 'image' } }"),
              HasSubstr("twice"));
  EXPECT_THAT(FramesProblem("stages { concat { inputs: ['a', 'b'] } }"),
              HasSubstr("concat.output: "));
  EXPECT_THAT(FramesProblem("stages { concat { inputs: ['a', 'x'] output: 'image' } }"),
              HasSubstr("concat.inputs: "));
  EXPECT_THAT(FramesProblem("stages { resize { input: 'a' size: 8 } }" + concat),
              HasSubstr("resize them to one size first"));
  EXPECT_THAT(FramesProblem("stages { normalize { input: 'a' divide: 2 } }" + concat),
              HasSubstr("uint8 image"));
  EXPECT_THAT(FramesProblem(concat + "stages { resize { size: 8 interpolation: INTERPOLATION_AREA "
                                     "} }"),
              HasSubstr("resize.interpolation: `area` takes images of at most 4 channels"));
}

}  // namespace
}  // namespace bulkhead::geometry_kinds_test
