#include "tools/preview/preview_boxes.h"

#include <gtest/gtest.h>

#include "server/spec/normalize.h"
#include "server/spec/yaml.h"

namespace bulkhead::tools {
namespace {

// Boxes of up to nine rows, and `features` beside them.
PipelineSignature SignatureOf(const std::string& features, const std::string& more = "") {
  auto spec = ParseSpec(
      "source: {tfrecord: {files: a}}\nfeatures:\n  image: {bytes: {}}\n"
      "  boxes: {tensor: {dtype: float32, shape: [-1, 4], max_count: 9}}\n" +
          features +
          "stages: [decode_image, {boxes: {format: xyxy}}, {resize: {size: 32}}]\n"
          "batch: {size: 4}\n" +
          more,
      "test");
  EXPECT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(Normalize(*spec).ok());
  auto signature = InferSignature(*spec);
  EXPECT_TRUE(signature.ok()) << signature.status();
  return *std::move(signature);
}

std::string LabelsOf(const PipelineSignature& signature, const std::string& asked = "",
                     bool delivered = true) {
  const auto found = BoxFeatures(signature, "image", asked, delivered);
  EXPECT_EQ(found.size(), 1);
  return found.empty() ? "" : found[0].labels;
}

constexpr char kIds[] = "  a_ids: {int64: {shape: [-1], max_count: 9}}\n";
constexpr char kLabels[] = "  the_Labels: {int64: {shape: [-1], max_count: 9}}\n";
constexpr char kClasses[] = "  classes: {int64: {shape: [-1], max_count: 9}}\n";

TEST(PreviewBoxesTest, WholeNumbersOneForEachBoxAreLabels) {
  EXPECT_EQ(LabelsOf(SignatureOf(kIds)), "a_ids");
}

TEST(PreviewBoxesTest, NamesDecideBetweenSeveral) {
  EXPECT_EQ(LabelsOf(SignatureOf(std::string(kIds) + kLabels + kClasses)), "the_Labels");
  EXPECT_EQ(LabelsOf(SignatureOf(std::string(kIds) + kClasses)), "classes");
}

TEST(PreviewBoxesTest, WhatIsNoneForEachBoxIsNoLabel) {
  EXPECT_EQ(LabelsOf(SignatureOf("  labels: int64\n")), "") << "one for the whole image";
  EXPECT_EQ(LabelsOf(SignatureOf("  labels: {int64: {shape: [-1], max_count: 8}}\n")), "");
  EXPECT_EQ(LabelsOf(SignatureOf("  labels: {int64: {shape: [9]}}\n")), "");
  EXPECT_EQ(LabelsOf(SignatureOf("  labels: {float: {shape: [-1], max_count: 9}}\n")), "");
}

TEST(PreviewBoxesTest, WhatIsNotDeliveredCountsOnlyWhereItMayBe) {
  const PipelineSignature signature = SignatureOf(kLabels, "outputs: [image, boxes]\n");
  EXPECT_EQ(LabelsOf(signature), "");
  EXPECT_EQ(LabelsOf(signature, "", false), "the_Labels");
}

TEST(PreviewBoxesTest, TheCallerHasTheLastWord) {
  const PipelineSignature signature = SignatureOf(std::string(kIds) + kLabels);
  EXPECT_EQ(LabelsOf(signature, "a_ids"), "a_ids");
  EXPECT_EQ(LabelsOf(signature, kNoLabels), "");
}

}  // namespace
}  // namespace bulkhead::tools
