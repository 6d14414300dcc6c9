// Declarations of boxes, points and masks: what they refuse, and where they get lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead::box_kinds_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string In(const std::string& stage) { return "stages { " + stage + " } "; }

constexpr char kFeatures[] = R"(
  features { key: "image" value { bytes {} } }
  features { key: "mask" value { bytes {} } }
  features { key: "boxes" value { float { shape: [-1, 4] max_count: 8 } } }
  features { key: "labels" value { int64 { shape: [-1] max_count: 8 } } }
  features { key: "few" value { int64 { shape: [-1] max_count: 7 } } }
  features { key: "four" value { float { shape: [4] } } }
  features { key: "fixed" value { float { shape: [5, 4] } } }
  features { key: "whole" value { int64 { shape: [-1, 4] max_count: 8 } } }
  features { key: "points" value { float { shape: [-1, 17, 2] max_count: 8 } } }
)";

const std::string& Decoded() {
  static const auto& text = *new std::string(
      In("decode_image {}") + In("decode_image { input: 'mask' color: COLOR_GRAY }"));
  return text;
}
constexpr char kBoxes[] = "stages { boxes { format: BOX_FORMAT_XYXY } } ";
constexpr char kFlip[] = "stages { random_horizontal_flip {} } ";

// Where a spec is wrong and what is said about it; empty when it is right.
std::string Problem(const std::string& stages) {
  v1::PipelineSpec spec = RecordSpec(kFeatures + stages + " outputs: 'labels'");
  absl::Status status = Normalize(spec);
  if (status.ok()) status = InferSignature(spec).status();
  return status.ok() ? "" : absl::StrCat(ErrorPath(status), ": ", status.message());
}

// A feature behind all stages.
FeatureSignature After(const std::string& stages, const std::string& name) {
  v1::PipelineSpec spec = RecordSpec(kFeatures + stages + " outputs: 'labels'");
  absl::Status status = Normalize(spec);
  EXPECT_TRUE(status.ok()) << status;
  const auto signature = InferSignature(spec);
  EXPECT_TRUE(signature.ok()) << signature.status();
  if (!signature.ok()) return {};
  for (const FeatureSignature& feature : signature->sources[0].features_after.back()) {
    if (feature.name == name) return feature;
  }
  ADD_FAILURE() << "no feature " << name;
  return {};
}

std::string Python(const std::string& output) {
  return In("python { function: 'm:f' inputs: 'image' outputs { " + output + " } }");
}
constexpr char kNewImage[] = "name: 'image' dtype: DTYPE_UINT8 shape: [20, 30, 3]";
constexpr char kNewBoxes[] = "name: 'boxes' dtype: DTYPE_FLOAT32 shape: [-1, 4] max_count: 8";

TEST(BoxesKindTest, DeclaresWhatAFeatureIsToAnImage) {
  const FeatureSignature boxes =
      After(Decoded() + In("boxes { format: BOX_FORMAT_CXCYWH relative: true }") + kFlip, "boxes");
  ASSERT_TRUE(boxes.annotation.has_value());
  EXPECT_EQ(boxes.annotation->kind, Annotation::Kind::kBoxes);
  EXPECT_EQ(boxes.annotation->image, "image");
  EXPECT_EQ(boxes.annotation->format, v1::BOX_FORMAT_CXCYWH);
  EXPECT_TRUE(boxes.annotation->relative);
  EXPECT_TRUE(boxes.annotation->lost_at.empty());
  EXPECT_TRUE(boxes.variable);
  EXPECT_EQ(Problem(Decoded() + In("boxes { input: 'fixed' format: BOX_FORMAT_XYXY }")), "");
  EXPECT_EQ(Problem(Decoded() + In("keypoints { input: 'points' }")), "");
}

TEST(BoxesKindTest, RefusesWhatAreNoBoxesOfAnImage) {
  EXPECT_THAT(Problem(Decoded() + In("boxes {}")), HasSubstr("stages[2].boxes.format: "));
  EXPECT_THAT(Problem(kBoxes + Decoded()),
              AllOf(HasSubstr("stages[0].boxes.image: "), HasSubstr("put decode_image before")));
  EXPECT_THAT(Problem(Decoded() + In("boxes { format: BOX_FORMAT_XYXY image: 'imag' }")),
              AllOf(HasSubstr("stages[2].boxes.image: "), HasSubstr("did you mean `image`")));
  EXPECT_THAT(Problem(Decoded() + In("boxes { format: BOX_FORMAT_XYXY input: 'bixes' }")),
              AllOf(HasSubstr("stages[2].boxes.input: "), HasSubstr("did you mean `boxes`")));
  EXPECT_THAT(Problem(Decoded() + In("boxes { format: BOX_FORMAT_XYXY image: 'labels' }")),
              HasSubstr("must be a decoded image, but `labels` is int64 tensor [8]"));
  EXPECT_THAT(Problem(Decoded() + In("boxes { format: BOX_FORMAT_XYXY image: 'boxes' }")),
              HasSubstr("boxes.image: is `boxes` itself"));
  for (const char* input : {"four", "labels", "points", "image"}) {
    EXPECT_THAT(Problem(Decoded() + In(absl::StrCat("boxes { format: BOX_FORMAT_XYXY input: '",
                                                    input, "' image: 'mask' }"))),
                AllOf(HasSubstr("boxes.input: takes rows of four float32 numbers"),
                      HasSubstr("name another")))
        << input;
  }
  EXPECT_THAT(Problem(Decoded() + In("boxes { format: BOX_FORMAT_XYXY input: 'whole' }")),
              HasSubstr("put cast: {dtype: float32} before it"));
  EXPECT_THAT(Problem(Decoded() + In("keypoints { input: 'boxes' }")),
              HasSubstr("takes float32 pairs"));
}

TEST(MaskKindTest, IsAnImageOfTheSameSize) {
  const std::string mask = In("mask {}");
  const FeatureSignature moved =
      After(Decoded() + mask + In("random_resized_crop { size: [20, 30] }"), "mask");
  EXPECT_THAT(moved.shape, ElementsAre(20, 30, 1));
  EXPECT_EQ(moved.path, "stages[3].random_resized_crop");
  EXPECT_THAT(Problem(mask), HasSubstr("stages[0].mask.image: must be a decoded image"));
  EXPECT_THAT(Problem(In("decode_image {}") + mask), HasSubstr("mask.input: takes a uint8 image"));
  EXPECT_THAT(
      Problem(Decoded() + In("resize { size: 8 }") + In("resize { input: 'mask' size: 9 }") + mask),
      HasSubstr("mask.input: `mask` is uint8 image [9,9,1], but `image` is uint8 image "
                "[8,8,3] here"));
  EXPECT_THAT(Problem(Decoded() + In("mask { fill: 256 }")), HasSubstr("mask.fill: "));
  EXPECT_THAT(Problem(Decoded() + mask + In("boxes { format: BOX_FORMAT_XYXY image: 'mask' }")),
              HasSubstr("`mask` is a mask of `image`: name that image"));
  EXPECT_THAT(Problem(Decoded() + In("boxes { format: BOX_FORMAT_XYXY image: 'mask' }") + mask),
              HasSubstr("mask.input: `mask` is an image that `boxes` was declared for"));
}

TEST(CarryAnnotationsTest, AUserStageThatReplacesTheImagePartsThem) {
  // Harmless as long as nothing has to follow.
  EXPECT_EQ(Problem(Decoded() + kBoxes + Python(kNewImage) + In("normalize { divide: 2 }")), "");
  EXPECT_THAT(Problem(Decoded() + kBoxes + Python(kNewImage) + kFlip),
              AllOf(HasSubstr("stages[4].random_horizontal_flip: moves the pixels of `image`, but "
                              "`boxes` and its image `image` were separated by stages[3].python"),
                    HasSubstr("boxes: {input: boxes")));
  EXPECT_THAT(Problem(Decoded() + kBoxes + Python(kNewBoxes) + kFlip),
              HasSubstr("were separated by stages[3].python"));
  // Declared again, they follow again.
  EXPECT_EQ(Problem(Decoded() + kBoxes + Python(kNewImage) + kBoxes + kFlip), "");
  // Another image is another matter.
  EXPECT_EQ(Problem(Decoded() + kBoxes + Python(kNewImage) +
                    In("random_horizontal_flip { input: 'mask' }")),
            "");
  EXPECT_THAT(Problem(Decoded() + kBoxes + Python(kNewImage) + In("sanitize_boxes {}")),
              HasSubstr("stages[4].sanitize_boxes.input: needs the boxes of an image, but"));
}

TEST(CarryAnnotationsTest, StagesOnTheAnnotationAlonePartThem) {
  const std::string mask = Decoded() + In("mask {}");
  EXPECT_EQ(Problem(mask + In("resize { size: 8 }") + In("resize { input: 'mask' size: 2 }")), "");
  EXPECT_THAT(Problem(mask + In("resize { input: 'mask' size: 2 }") + kFlip),
              HasSubstr("were separated by stages[3].resize"));
  EXPECT_THAT(Problem(Decoded() + kBoxes + In("normalize { input: 'boxes' divide: 2 }") + kFlip),
              HasSubstr("were separated by stages[3].normalize"));
  EXPECT_THAT(Problem(Decoded() + kBoxes + In("pad_rows {}") + kFlip),
              HasSubstr("were separated by stages[3].pad_rows"));
  // Colours move nothing.
  EXPECT_EQ(Problem(mask + kBoxes + In("color_jitter { hue: 0.1 }") + kFlip), "");
}

TEST(CarryAnnotationsTest, ConcatTakesThemAlong) {
  const FeatureSignature boxes =
      After(Decoded() + In("boxes { format: BOX_FORMAT_XYXY image: 'mask' }") +
                In("concat { inputs: ['image', 'mask'] output: 'both' }"),
            "boxes");
  EXPECT_EQ(boxes.annotation->image, "both");
  EXPECT_TRUE(boxes.annotation->lost_at.empty());
  // A mask that becomes channels is none any more.
  EXPECT_FALSE(
      After(Decoded() + In("mask {}") + In("concat { inputs: ['mask', 'image'] output: 'mask' }"),
            "mask")
          .annotation->lost_at.empty());
}

TEST(ConvertBoxesKindTest, ChangesTheDeclaration) {
  const std::string declared = Decoded() + kBoxes;
  const FeatureSignature boxes =
      After(declared + In("convert_boxes { to: BOX_FORMAT_XYWH relative: true }"), "boxes");
  EXPECT_EQ(boxes.annotation->format, v1::BOX_FORMAT_XYWH);
  EXPECT_TRUE(boxes.annotation->relative);
  EXPECT_EQ(After(declared + In("convert_boxes { relative: true }"), "boxes").annotation->format,
            v1::BOX_FORMAT_XYXY);
  EXPECT_THAT(Problem(declared + In("convert_boxes {}")), HasSubstr("changes nothing"));
  EXPECT_THAT(Problem(Decoded() + In("convert_boxes { relative: true }")),
              AllOf(HasSubstr("stages[2].convert_boxes.input: takes declared boxes"),
                    HasSubstr("put boxes: {input: boxes, format: …} before it")));
}

TEST(SanitizeBoxesKindTest, WantsRowsThatCanGo) {
  const std::string declared = Decoded() + kBoxes;
  EXPECT_EQ(Problem(declared + In("sanitize_boxes { with: ['labels', 'points'] }")), "");
  EXPECT_THAT(Problem(declared + In("sanitize_boxes { with: ['labels', 'few'] }")),
              AllOf(HasSubstr("sanitize_boxes.with[1]: `few` has at most 7 rows"),
                    HasSubstr("the same max_count")));
  EXPECT_THAT(Problem(declared + In("sanitize_boxes { with: 'fixed' }")),
              HasSubstr("sanitize_boxes.with[0]: drops rows, but `fixed` is float32 tensor [5,4]"));
  EXPECT_THAT(Problem(declared + In("sanitize_boxes { with: 'label' }")),
              AllOf(HasSubstr("sanitize_boxes.with[0]: "), HasSubstr("did you mean `labels`")));
  EXPECT_THAT(Problem(declared + In("sanitize_boxes { with: ['labels', 'labels'] }")),
              HasSubstr("twice"));
  EXPECT_THAT(Problem(Decoded() + In("boxes { input: 'fixed' format: BOX_FORMAT_XYXY }") +
                      In("sanitize_boxes { input: 'fixed' }")),
              HasSubstr("sanitize_boxes.input: drops rows"));
  for (const char* option : {"min_size: 0", "min_size: nan", "min_area: -1", "min_visibility: 1.1",
                             "epsilon: -1", "epsilon: 1 clamp: false"}) {
    EXPECT_NE(Problem(declared + In(absl::StrCat("sanitize_boxes { ", option, " }"))), "")
        << option;
  }
}

TEST(IouCropKindTest, WantsTheBoxesOfItsImage) {
  const std::string declared = Decoded() + kBoxes;
  EXPECT_THAT(After(declared + In("random_iou_crop {}"), "image").shape, ElementsAre(-1, -1, 3));
  EXPECT_THAT(Problem(Decoded() + In("random_iou_crop {}")),
              HasSubstr("random_iou_crop.boxes: takes declared boxes"));
  EXPECT_THAT(Problem(declared + In("random_iou_crop { input: 'mask' }")),
              HasSubstr("`boxes` holds boxes of `image`, not of `mask`"));
  for (const char* option :
       {"scale: [0.5, 1.5]", "ratio: [2, 1]", "min_overlap: -0.5", "trials: 10001"}) {
    EXPECT_NE(Problem(declared + In(absl::StrCat("random_iou_crop { ", option, " }"))), "")
        << option;
  }
}

TEST(ZoomOutKindTest, CanvasesAreNotSmallerThanTheImage) {
  EXPECT_THAT(After(Decoded() + In("random_zoom_out {}"), "image").shape, ElementsAre(-1, -1, 3));
  EXPECT_THAT(Problem(Decoded() + In("random_zoom_out { side_range: [0.5, 2] }")),
              HasSubstr("random_zoom_out.side_range: begins below 1"));
  EXPECT_THAT(Problem(Decoded() + In("random_zoom_out { fill: [1, 2] }")),
              HasSubstr("random_zoom_out.fill: "));
}

TEST(DistortKindTest, TakesRgbAndSensibleRanges) {
  EXPECT_EQ(Problem(Decoded() + In("random_photometric_distort {}")), "");
  EXPECT_THAT(Problem(Decoded() + In("random_photometric_distort { input: 'mask' }")),
              HasSubstr("three channels"));
  for (const char* option : {"brightness: 0.5", "contrast: [2, 1]", "saturation: [-1, 1]",
                             "hue: [-0.6, 0]", "probability: 2"}) {
    EXPECT_NE(Problem(Decoded() + In(absl::StrCat("random_photometric_distort { ", option, " }"))),
              "")
        << option;
  }
}

TEST(PadRowsKindTest, FixesTheNumberOfRows) {
  const FeatureSignature boxes = After(In("pad_rows { to: 20 }"), "boxes");
  EXPECT_FALSE(boxes.variable);
  EXPECT_THAT(boxes.shape, ElementsAre(20, 4));
  EXPECT_THAT(After(In("pad_rows { input: 'labels' value: -1 count: 'n' }"), "labels").shape,
              ElementsAre(8));
  const FeatureSignature count = After(In("pad_rows { count: 'n' }"), "n");
  EXPECT_EQ(count.dtype, v1::DTYPE_INT64);
  EXPECT_TRUE(count.shape.empty());
  EXPECT_THAT(Problem(In("pad_rows { input: 'fixed' }")), HasSubstr("varying number of rows"));
  EXPECT_THAT(Problem(In("pad_rows { count: 'labels' }")),
              HasSubstr("pad_rows.count: `labels` is a feature already"));
  EXPECT_THAT(Problem(In("pad_rows { input: 'labels' value: 0.5 }")),
              HasSubstr("pad_rows.value: is 0.5, which int64 cannot hold"));
  EXPECT_THAT(Problem(In("pad_rows { to: 70000 }")), HasSubstr("pad_rows.to: "));
  EXPECT_NE(Problem(In("pad_rows { value: nan }")), "");
}

TEST(PadRowsKindTest, LeavesTypesToTheirFunctionThatOnlyFunctionsMake) {
  for (const char* dtype : {"UINT32", "UINT64", "COMPLEX64", "COMPLEX128"}) {
    EXPECT_THAT(Problem(Python(absl::StrCat("name: 'waves' dtype: DTYPE_", dtype,
                                            " shape: [-1, 3] max_count: 5")) +
                        In("pad_rows { input: 'waves' }")),
                AllOf(HasSubstr("stages[1].pad_rows.input: "),
                      HasSubstr("rows of a type that stages work with"),
                      HasSubstr("fixed number of rows from your function")))
        << dtype;
  }
}

TEST(MixtureTest, SourcesMustDeclareAlike) {
  const auto problem = [](const std::string& second) {
    const std::string source =
        "source { tfrecord { files: 'a' } } features { key: 'image' value { bytes {} } } "
        "features { key: 'boxes' value { float { shape: [-1, 4] max_count: 8 } } } "
        "stages { decode_image {} } ";
    v1::PipelineSpec spec = FromText<v1::PipelineSpec>(
        absl::StrCat("batch { size: 2 } source { mixture { sources { weight: 1 ", source, kBoxes,
                     " } sources { weight: 1 ", source, second, " } } } ", kFlip,
                     "stages { resize { size: 8 } }"));
    absl::Status status = Normalize(spec);
    if (status.ok()) status = InferSignature(spec).status();
    return std::string(status.message());
  };
  EXPECT_EQ(problem(kBoxes), "");
  EXPECT_THAT(problem(""), HasSubstr("declared as xyxy boxes of `image`"));
  EXPECT_THAT(problem(In("boxes { format: BOX_FORMAT_XYXY relative: true }")),
              HasSubstr("declared as relative xyxy boxes of `image`"));
}

}  // namespace
}  // namespace bulkhead::box_kinds_test
