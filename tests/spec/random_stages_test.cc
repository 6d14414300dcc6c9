// Which stages of a spec draw random numbers that decide anything.
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/spec/stage_signature.h"
#include "server/spec/yaml/yaml.h"

namespace bulkhead {
namespace {

bool IsRandom(const std::string& stage) {
  const auto spec = ParseSpec(
      absl::StrCat("source: {image_folder: {path: p}}\nbatch: {size: 2}\noutputs: label\nstages:\n"
                   "- decode_image\n- ",
                   stage, "\n"),
      "r.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() && IsRandomStage(spec->stages(1));
}

TEST(IsRandomStageTest, AProbabilityOfNoneOrAllDecidesNothing) {
  for (const std::string name : {"equalize", "autocontrast", "posterize", "solarize", "grayscale",
                                 "random_horizontal_flip", "random_vertical_flip"}) {
    const std::string bits = name == "posterize" ? "bits: 3, " : "";
    for (const char* certain : {"0", "1"}) {
      EXPECT_FALSE(IsRandom(absl::StrCat(name, ": {", bits, "probability: ", certain, "}")))
          << name;
    }
    EXPECT_TRUE(IsRandom(absl::StrCat(name, ": {", bits, "probability: 0.3}"))) << name;
  }
  EXPECT_FALSE(IsRandom("equalize"));
  EXPECT_TRUE(IsRandom("random_horizontal_flip"));
}

TEST(IsRandomStageTest, RangesOfOneNumberDecideNothing) {
  EXPECT_TRUE(IsRandom("gaussian_blur: {kernel: 3}"));
  EXPECT_FALSE(IsRandom("gaussian_blur: {kernel: 3, sigma: 1}"));
  EXPECT_TRUE(IsRandom("gaussian_blur: {kernel: 3, sigma: 1, probability: 0.5}"));
  EXPECT_FALSE(IsRandom("gaussian_blur: {kernel: 3, probability: 0}"));
  EXPECT_TRUE(IsRandom("color_jitter: {brightness: 0.5}"));
  EXPECT_FALSE(IsRandom("color_jitter: {brightness: [1.5, 1.5]}"));
  EXPECT_TRUE(IsRandom("color_jitter: {brightness: [1.5, 1.5], hue: [0.1, 0.1]}")) << "the order";
  EXPECT_TRUE(IsRandom("color_jitter: {brightness: [1.5, 1.5], probability: 0.5}"));
  EXPECT_FALSE(IsRandom("color_jitter: {brightness: 0.5, probability: 0}"));
  EXPECT_TRUE(IsRandom("random_affine: {degrees: 10}"));
  EXPECT_TRUE(IsRandom("random_affine: {translate: [0.1, 0]}"));
  EXPECT_TRUE(IsRandom("random_affine: {shear: [0, 1]}"));
  EXPECT_FALSE(IsRandom("random_affine: {degrees: [30, 30], translate: [0, 0], scale: [2, 2]}"));
}

TEST(IsRandomStageTest, OthersDrawWheneverTheyAct) {
  EXPECT_FALSE(IsRandom("random_erasing: {probability: 0}"));
  EXPECT_TRUE(IsRandom("random_erasing: {probability: 1}"));
  EXPECT_FALSE(IsRandom("random_perspective: {probability: 0}"));
  EXPECT_TRUE(IsRandom("random_perspective: {probability: 1}"));
  EXPECT_FALSE(IsRandom("random_perspective: {probability: 1, distortion: 0}"));
  EXPECT_TRUE(IsRandom("random_crop: {size: 3}"));
  EXPECT_TRUE(IsRandom("rand_augment"));
  EXPECT_TRUE(IsRandom("python: {function: 'a:f', outputs: [{name: x, dtype: int8}]}"));
  EXPECT_FALSE(IsRandom("resize: {size: 3}"));
  EXPECT_FALSE(IsRandom("five_crop: {size: 3}"));
}

}  // namespace
}  // namespace bulkhead
