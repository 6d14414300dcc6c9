#include "tools/pack/recoding_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/spec/yaml/yaml.h"

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<v1::PipelineSpec> PlanSpec(const std::string& stages) {
  return ParseSpec(absl::StrCat("source: {tfrecord: {files: x}}\nfeatures:\n  image: {bytes: {}}\n"
                                "  right: {bytes: {}}\n"
                                "  boxes: {float: {shape: [-1, 4], max_count: 9}}\n"
                                "  points: {float: {shape: [-1, 2], max_count: 9}}\n"
                                "batch: {size: 1}\noutputs: [boxes]\nstages: [",
                                stages, "]\n"),
                   "x.yaml");
}

// "image upright: boxes points; right: ", or the error.
std::string Plan(const std::string& stages) {
  const auto spec = PlanSpec(stages);
  if (!spec.ok()) return std::string(spec.status().message());
  const auto plan = RecodingPlan::Of(*spec);
  if (!plan.ok()) return std::string(plan.status().message());
  return absl::StrJoin(plan->images, "; ", [](std::string* out, const RecodingPlan::Image& image) {
    absl::StrAppend(out, image.name, image.upright ? " upright" : "", ": ",
                    absl::StrJoin(image.coordinates, " "));
  });
}

TEST(RecodingPlanTest, FindsImagesAndCoordinatesInPixels) {
  EXPECT_EQ(Plan("decode_image, {boxes: {format: xywh}}, {keypoints: {input: points}}, "
                 "{resize: {size: 9}}"),
            "image: boxes points");
  EXPECT_EQ(Plan("{decode_image: {input: right, exif_orientation: true}}, decode_image, "
                 "{boxes: {format: xyxy}}"),
            "right upright: ; image: boxes");
}

TEST(RecodingPlanTest, RelativeCoordinatesStayAsTheyAre) {
  EXPECT_EQ(Plan("decode_image, {boxes: {format: xywh, relative: true}}"), "image: ");
  EXPECT_EQ(Plan("decode_image, {resize: {size: 9}}, {boxes: {format: xywh, relative: true}}"),
            "image: ");
}

TEST(RecodingPlanTest, WhatAJpegCannotHoldIsRefused) {
  EXPECT_THAT(Plan("{decode_image: {channels: 4}}"), HasSubstr("stages[0] decodes alpha"));
  EXPECT_THAT(Plan("{decode_image: {keep_16_bit: true}}"), HasSubstr("stages[0] decodes 16 bits"));
  EXPECT_THAT(Plan("decode_image, {decode_image: {input: right, color: gray}}, "
                   "{mask: {input: right}}"),
              HasSubstr("stages[2] declares a mask"));
}

TEST(RecodingPlanTest, CoordinatesBehindAMoveAndNoImageAreRefused) {
  EXPECT_THAT(Plan("decode_image, {resize: {size: 9}}, {boxes: {format: xywh}}"),
              HasSubstr("stages[2] declares boxes in pixels behind a stage"));
  EXPECT_THAT(Plan(""), HasSubstr("no decode_image"));
}

TEST(RecodingPlanTest, BoxesThatNoStageDeclaresAreNoticed) {
  const auto undeclared = [](const std::string& stages) {
    return RecodingPlan::Of(PlanSpec(stages).value())->undeclared;
  };
  EXPECT_THAT(undeclared("decode_image"), ElementsAre("boxes"));
  EXPECT_THAT(undeclared("decode_image, {boxes: {format: xywh, relative: true}}"), IsEmpty());
}

}  // namespace
}  // namespace bulkhead::tools
