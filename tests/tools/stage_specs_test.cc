#include "tools/preview/stage_specs.h"

#include <gtest/gtest.h>

#include "server/spec/normalize/normalize.h"
#include "server/spec/yaml/yaml.h"

namespace bulkhead::tools {
namespace {

v1::PipelineSpec Spec(const std::string& stages) {
  auto spec = ParseSpec("source: {image_folder: {path: photos}}\nstages:\n" + stages +
                            "\nbatch: {size: 4}\noutputs: [image, label]\n",
                        "test");
  EXPECT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(Normalize(*spec).ok());
  return *spec;
}

std::vector<std::string> Titles(const std::vector<StageSpec>& specs) {
  std::vector<std::string> titles;
  for (const StageSpec& spec : specs) titles.push_back(spec.title);
  return titles;
}

TEST(StageSpecsTest, HasOneForEachStageThatChangesTheImage) {
  const auto specs = CutBehindStages(
      Spec("- decode_image\n- cast: {input: label, dtype: float32}\n- center_crop: {size: 32}\n"
           "- normalize: {divide: 255}\n- layout: {to: NCHW}"),
      "image", 64);
  EXPECT_EQ(Titles(specs),
            (std::vector<std::string>{"decode_image", "center_crop", "normalize", "layout"}));
}

TEST(StageSpecsTest, GivesAnImageOfAnySizeBarsAndLeavesOthersAlone) {
  const auto specs =
      CutBehindStages(Spec("- decode_image\n- center_crop: {size: 32}"), "image", 64);
  ASSERT_EQ(specs.size(), 2u);
  ASSERT_EQ(specs[0].spec.stages_size(), 2);
  EXPECT_EQ(specs[0].spec.stages(1).letterbox().size(0), 64u);
  ASSERT_EQ(specs[1].spec.stages_size(), 2);
  EXPECT_TRUE(specs[1].spec.stages(1).has_center_crop());
}

TEST(StageSpecsTest, AsksForTheImageAlone) {
  const auto specs =
      CutBehindStages(Spec("- decode_image\n- center_crop: {size: 32}"), "image", 64);
  for (const StageSpec& spec : specs) {
    ASSERT_EQ(spec.spec.outputs_size(), 1);
    EXPECT_EQ(spec.spec.outputs(0), "image");
  }
}

TEST(StageSpecsTest, AsksForDeclaredBoxes) {
  auto spec = ParseSpec(
      "source: {tfrecord: {files: a}}\n"
      "features:\n"
      "  image: {bytes: {}}\n"
      "  boxes: {tensor: {dtype: float32, shape: [-1, 4], max_count: 9}}\n"
      "stages: [decode_image, {boxes: {format: xyxy}}, {resize: {size: 32}}]\n"
      "batch: {size: 4}\n",
      "test");
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_TRUE(Normalize(*spec).ok());
  const auto specs = CutBehindStages(*spec, "image", 64);
  ASSERT_EQ(Titles(specs), (std::vector<std::string>{"decode_image", "resize"}));
  EXPECT_EQ(specs[0].spec.outputs_size(), 1) << "nothing is declared there yet";
  ASSERT_EQ(specs[1].spec.outputs_size(), 2);
  EXPECT_EQ(specs[1].spec.outputs(1), "boxes");
}

TEST(StageSpecsTest, AsksForTheLabelsOfDeclaredBoxes) {
  auto spec = ParseSpec(
      "source: {tfrecord: {files: a}}\n"
      "features:\n"
      "  image: {bytes: {}}\n"
      "  ids: {int64: {shape: [-1], max_count: 9}}\n"
      "  classes: {int64: {shape: [-1], max_count: 9}}\n"
      "  boxes: {tensor: {dtype: float32, shape: [-1, 4], max_count: 9}}\n"
      "stages: [decode_image, {boxes: {format: xyxy}}, {resize: {size: 32}}]\n"
      "batch: {size: 4}\n",
      "test");
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_TRUE(Normalize(*spec).ok());
  const auto outputs = [&](const std::string& labels) {
    const auto specs = CutBehindStages(*spec, "image", 64, labels);
    const auto& found = specs.back().spec.outputs();
    return std::vector<std::string>(found.begin(), found.end());
  };
  EXPECT_EQ(outputs(""), (std::vector<std::string>{"image", "boxes", "classes"}));
  EXPECT_EQ(outputs("ids"), (std::vector<std::string>{"image", "boxes", "ids"}));
  EXPECT_EQ(outputs("none"), (std::vector<std::string>{"image", "boxes"}));
}

TEST(StageSpecsTest, FindsNothingForAFeatureThatIsNoImage) {
  EXPECT_TRUE(
      CutBehindStages(Spec("- decode_image\n- center_crop: {size: 32}"), "label", 64).empty());
}

}  // namespace
}  // namespace bulkhead::tools
