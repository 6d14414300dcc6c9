// What the stages of colour and the warps make of their options and of their input.
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead::color_kinds_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kBefore[] = "stages { decode_image {} } stages { resize { size: 8 } } ";

// The third stage of a spec with that one stage behind a decoder and a resize, normalized.
v1::Stage Normalized(const std::string& stage) {
  v1::PipelineSpec spec = FolderSpec(absl::StrCat(kBefore, "stages { ", stage, " }"));
  const absl::Status status = Normalize(spec);
  EXPECT_TRUE(status.ok()) << status;
  return spec.stages(2);
}

TEST(ColorKindsTest, FillDefaultsIn) {
  const v1::ColorJitter jitter =
      Normalized("color_jitter { brightness: 0.25 contrast: 1.5 hue: 0.25 }").color_jitter();
  EXPECT_EQ(jitter.input(), "image");
  EXPECT_THAT(jitter.brightness(), ElementsAre(0.75, 1.25));
  EXPECT_THAT(jitter.contrast(), ElementsAre(0, 2.5));
  EXPECT_THAT(jitter.saturation(), ElementsAre());
  EXPECT_THAT(jitter.hue(), ElementsAre(-0.25, 0.25));
  EXPECT_EQ(jitter.probability(), 1);
  EXPECT_THAT(Normalized("color_jitter { saturation: [0.5, 3] }").color_jitter().saturation(),
              ElementsAre(0.5, 3));
  const v1::GaussianBlur blur = Normalized("gaussian_blur { kernel: 23 }").gaussian_blur();
  EXPECT_THAT(blur.sigma(), ElementsAre(0.1, 2));
  EXPECT_EQ(blur.probability(), 1);
  EXPECT_THAT(Normalized("gaussian_blur { kernel: 3 sigma: 1.5 }").gaussian_blur().sigma(),
              ElementsAre(1.5, 1.5));
  const v1::RandomErasing erasing = Normalized("random_erasing {}").random_erasing();
  EXPECT_EQ(erasing.probability(), 0.5);
  EXPECT_THAT(erasing.scale(), ElementsAre(0.02, 0.33));
  EXPECT_THAT(erasing.ratio(), ElementsAre(0.3, 3.3));
  EXPECT_THAT(erasing.fill(), ElementsAre(0));
  EXPECT_EQ(Normalized("grayscale {}").grayscale().probability(), 1);
  EXPECT_EQ(Normalized("equalize {}").equalize().probability(), 1);
  EXPECT_EQ(Normalized("autocontrast {}").autocontrast().probability(), 1);
  EXPECT_EQ(Normalized("posterize { bits: 4 }").posterize().probability(), 1);
  EXPECT_EQ(Normalized("solarize {}").solarize().probability(), 1);
  EXPECT_EQ(Normalized("solarize {}").solarize().threshold(), 128);
  EXPECT_EQ(Normalized("solarize { threshold: 0 }").solarize().threshold(), 0);
}

TEST(WarpKindsTest, FillDefaultsIn) {
  const v1::RandomAffine affine = Normalized("random_affine {}").random_affine();
  EXPECT_THAT(affine.degrees(), ElementsAre(0, 0));
  EXPECT_THAT(affine.translate(), ElementsAre());
  EXPECT_THAT(affine.scale(), ElementsAre(1, 1));
  EXPECT_THAT(affine.shear(), ElementsAre());
  EXPECT_EQ(affine.interpolation(), v1::INTERPOLATION_NEAREST);
  EXPECT_THAT(affine.fill(), ElementsAre(0));
  const v1::RandomAffine given =
      Normalized("random_affine { degrees: 30 shear: 5 translate: [0.1, 0.2] }").random_affine();
  EXPECT_THAT(given.degrees(), ElementsAre(-30, 30));
  EXPECT_THAT(given.shear(), ElementsAre(-5, 5));
  const v1::RandomPerspective perspective =
      Normalized("random_perspective {}").random_perspective();
  EXPECT_EQ(perspective.distortion(), 0.5);
  EXPECT_EQ(perspective.probability(), 0.5);
  EXPECT_EQ(perspective.interpolation(), v1::INTERPOLATION_LINEAR);
  EXPECT_THAT(perspective.fill(), ElementsAre(0));
  const v1::RandAugment augment = Normalized("rand_augment {}").rand_augment();
  EXPECT_EQ(augment.operations(), 2);
  EXPECT_EQ(augment.magnitude(), 9);
  EXPECT_EQ(augment.interpolation(), v1::INTERPOLATION_NEAREST);
  EXPECT_THAT(augment.fill(), ElementsAre(0));
  EXPECT_EQ(Normalized("rand_augment { magnitude: 0 }").rand_augment().magnitude(), 0);
  const v1::TrivialAugment trivial = Normalized("trivial_augment {}").trivial_augment();
  EXPECT_EQ(trivial.interpolation(), v1::INTERPOLATION_NEAREST);
  EXPECT_THAT(trivial.fill(), ElementsAre(0));
}

// A spec is normalized by the client, and again by the service.
TEST(ColorKindsTest, NormalizedOptionsStayAsTheyAre) {
  for (const std::string stage :
       {"color_jitter { brightness: 0.4 hue: 0.1 }", "color_jitter { contrast: 0 }",
        "gaussian_blur { kernel: 5 sigma: 2 }", "random_erasing {}", "solarize {}",
        "random_affine { degrees: 7 shear: 3 }", "random_affine { shear: [1, 2, 3, 4] }",
        "random_perspective {}", "rand_augment {}", "trivial_augment {}"}) {
    const std::string once = Normalized(stage).ShortDebugString();
    EXPECT_EQ(Normalized(once).ShortDebugString(), once);
  }
}

TEST(ColorKindsTest, RefuseOptionsThatMeanNothing) {
  const struct {
    const char* stage;
    const char* path;
    const char* problem;
  } cases[] = {
      {"color_jitter {}", "color_jitter", "changes nothing"},
      {"color_jitter { brightness: -0.1 }", "color_jitter.brightness", "between 0 and 999"},
      {"color_jitter { contrast: [2, 1] }", "color_jitter.contrast", "low <= high"},
      {"color_jitter { contrast: [-1, 1] }", "color_jitter.contrast", "0 <= low"},
      {"color_jitter { saturation: [1, 1, 1] }", "color_jitter.saturation", "two [low, high]"},
      {"color_jitter { saturation: nan }", "color_jitter.saturation", "one number"},
      {"color_jitter { hue: 0.6 }", "color_jitter.hue", "between 0 and 0.5"},
      {"color_jitter { hue: [-0.6, 0] }", "color_jitter.hue", "-0.5 <= low"},
      {"color_jitter { hue: 0.1 probability: 2 }", "color_jitter.probability", "between 0 and 1"},
      {"grayscale { probability: -1 }", "grayscale.probability", "between 0 and 1"},
      {"gaussian_blur {}", "gaussian_blur.kernel", "required"},
      {"gaussian_blur { kernel: 4 }", "gaussian_blur.kernel", "odd"},
      {"gaussian_blur { kernel: 257 }", "gaussian_blur.kernel", "at most 255"},
      {"gaussian_blur { kernel: 3 sigma: 0 }", "gaussian_blur.sigma", "0 < low"},
      {"gaussian_blur { kernel: 3 sigma: [2, 1] }", "gaussian_blur.sigma", "low <= high"},
      {"random_erasing { scale: [0.1, 1.1] }", "random_erasing.scale", "high <= 1"},
      {"random_erasing { ratio: [0, 1] }", "random_erasing.ratio", "0 < low"},
      {"random_erasing { fill: 256 }", "random_erasing.fill", "end at 255"},
      {"random_erasing { fill: [1, 2] }", "random_erasing.fill", "one per channel"},
      {"random_erasing { probability: 1.5 }", "random_erasing.probability", "between 0 and 1"},
      {"equalize { probability: nan }", "equalize.probability", "between 0 and 1"},
      {"autocontrast { probability: 7 }", "autocontrast.probability", "between 0 and 1"},
      {"posterize {}", "posterize.bits", "required"},
      {"posterize { bits: 9 }", "posterize.bits", "8 bits"},
      {"posterize { bits: 1 probability: -2 }", "posterize.probability", "between 0 and 1"},
      {"solarize { threshold: 256 }", "solarize.threshold", "end at 255"},
      {"solarize { probability: -2 }", "solarize.probability", "between 0 and 1"},
      {"random_affine { degrees: -1 }", "random_affine.degrees", "from 0 to 360"},
      {"random_affine { degrees: [-361, 0] }", "random_affine.degrees", "within -360"},
      {"random_affine { degrees: [1, 2, 3, 4] }", "random_affine.degrees", "[low, high]"},
      {"random_affine { translate: 0.1 }", "random_affine.translate", "two numbers"},
      {"random_affine { translate: [0.1, 1.1] }", "random_affine.translate", "between 0 and 1"},
      {"random_affine { scale: [0, 1] }", "random_affine.scale", "0 < low"},
      {"random_affine { scale: [0.0001, 1] }", "random_affine.scale", "below 0.001"},
      {"random_affine { shear: 90 }", "random_affine.shear", "from 0 to 89"},
      {"random_affine { shear: [1, 2, 4, 3] }", "random_affine.shear", "y low, y high"},
      {"random_affine { shear: [1, 2, 3] }", "random_affine.shear", "y low, y high"},
      {"random_affine { interpolation: INTERPOLATION_AREA }", "random_affine.interpolation",
       "nearest or linear"},
      {"random_affine { fill: [1, 2, 3, 4] }", "random_affine.fill", "one per channel"},
      {"random_perspective { distortion: 1.1 }", "random_perspective.distortion",
       "between 0 and 1"},
      {"random_perspective { probability: 1.1 }", "random_perspective.probability",
       "between 0 and 1"},
      {"random_perspective { interpolation: INTERPOLATION_CUBIC }",
       "random_perspective.interpolation", "nearest or linear"},
      {"random_perspective { fill: 300 }", "random_perspective.fill", "end at 255"},
      {"rand_augment { operations: 101 }", "rand_augment.operations", "over the limit of 100"},
      {"rand_augment { magnitude: 31 }", "rand_augment.magnitude", "from 0 to 30"},
      {"rand_augment { interpolation: INTERPOLATION_AREA }", "rand_augment.interpolation",
       "nearest or linear"},
      {"trivial_augment { interpolation: INTERPOLATION_CUBIC }", "trivial_augment.interpolation",
       "nearest or linear"},
      {"trivial_augment { fill: [1, 2] }", "trivial_augment.fill", "one per channel"},
  };
  for (const auto& [stage, path, problem] : cases) {
    SCOPED_TRACE(stage);
    v1::PipelineSpec spec = FolderSpec(absl::StrCat(kBefore, "stages { ", stage, " }"));
    absl::Status status = Normalize(spec);
    if (status.ok()) status = InferSignature(spec).status();
    EXPECT_EQ(ErrorPath(status), absl::StrCat("stages[2].", path));
    EXPECT_THAT(std::string(status.message()), HasSubstr(problem));
  }
}

constexpr const char* kAll[] = {
    "color_jitter { hue: 0.1 }", "grayscale {}",    "gaussian_blur { kernel: 3 }",
    "random_erasing {}",         "equalize {}",     "autocontrast {}",
    "posterize { bits: 3 }",     "solarize {}",     "random_affine {}",
    "random_perspective {}",     "rand_augment {}", "trivial_augment {}"};

TEST(ColorKindsTest, KeepShapesAlsoUnknownOnes) {
  for (const std::string stage : kAll) {
    SCOPED_TRACE(stage);
    const auto signature = InferSignature(FolderSpec(
        absl::StrCat("stages { decode_image {} } stages { ", stage, " } outputs: 'label'")));
    ASSERT_TRUE(signature.ok()) << signature.status();
    const FeatureSignature& image = signature->sources[0].features_after[1][0];
    EXPECT_THAT(image.shape, ElementsAre(-1, -1, 3));
    EXPECT_EQ(image.dtype, v1::DTYPE_UINT8);
  }
}

TEST(ColorKindsTest, TakePixelsOnlyAndRgbWhereColoursMatter) {
  for (const std::string stage : kAll) {
    SCOPED_TRACE(stage);
    const auto status = [&](const std::string& before) {
      return InferSignature(
                 FolderSpec(absl::StrCat(before, "stages { ", stage, " } outputs: 'label'")))
          .status();
    };
    EXPECT_THAT(std::string(status("").message()), HasSubstr("put decode_image before it"));
    EXPECT_THAT(
        std::string(
            status("stages { decode_image {} } stages { normalize { mean: 1 } }").message()),
        HasSubstr("before normalize"));
    const bool rgb_only = stage.find("jitter") != std::string::npos || stage == "grayscale {}";
    const bool any = stage.find("augment") == std::string::npos && !rgb_only;
    EXPECT_EQ(status("stages { decode_image { color: COLOR_GRAY } }").ok(), !rgb_only);
    EXPECT_EQ(status("stages { decode_image { color: COLOR_RGBA } }").ok(), any);
  }
}

// A binding that was damaged on its way to a worker.
TEST(ColorKindsTest, RequiredOptionsAreCheckedAlsoWhereNothingWasNormalized) {
  for (const auto& [stage, path] : {std::pair{"gaussian_blur { kernel: 600 }", "kernel"},
                                    std::pair{"posterize { bits: 40 }", "bits"}}) {
    const auto signature =
        InferSignature(FolderSpec(absl::StrCat(kBefore, "stages { ", stage, " }")));
    EXPECT_THAT(ErrorPath(signature.status()), HasSubstr(path));
  }
}

}  // namespace
}  // namespace bulkhead::color_kinds_test
