#include "tools/preview/preview_boxes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "server/spec/normalize/normalize.h"
#include "server/spec/yaml/yaml.h"
#include "tests/tools/made_batch.h"

namespace bulkhead::tools {
namespace {

using ::testing::HasSubstr;

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

TEST(PreviewBoxesTest, TheCallerGetsNoLabelThatFitsNoBox) {
  EXPECT_EQ(LabelsOf(SignatureOf("  label: int64\n"), "label"), "");
}

std::string Refusal(const PipelineSignature& signature, const std::string& labels,
                    bool delivered = true, const std::string& image = "") {
  return std::string(CheckLabels(signature, image, labels, delivered).message());
}

TEST(PreviewBoxesTest, LabelsThatAreAskedForMustFitTheBoxes) {
  const PipelineSignature signature =
      SignatureOf(std::string(kIds) + "  label: int64\n  score: float\n" +
                  "  few: {int64: {shape: [-1], max_count: 8}}\n");
  for (const char* allowed : {"", kNoLabels, "a_ids"}) EXPECT_EQ(Refusal(signature, allowed), "");
  EXPECT_EQ(Refusal(signature, "a_ids", true, "image"), "");
  const auto status = CheckLabels(signature, "", "label", true);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("--labels label: it is not one number for each box of `boxes` (9 at most); "
                        "give it shape [-1] and the same bound, or omit --labels"));
  EXPECT_THAT(Refusal(signature, "few"), HasSubstr("--labels few: it is not one number for each"));
  EXPECT_THAT(Refusal(signature, "score"), HasSubstr("no integer output has that name"));
  EXPECT_THAT(Refusal(signature, "nothing"), HasSubstr("no integer output has that name"));
  EXPECT_THAT(Refusal(signature, "a_ids", true, "other"),
              HasSubstr("there are no boxes to draw it at"));
}

TEST(PreviewBoxesTest, BehindStagesLabelsNeedNotBeOutputs) {
  const PipelineSignature undelivered = SignatureOf(kLabels, "outputs: [image, boxes]\n");
  EXPECT_THAT(Refusal(undelivered, "the_Labels"), HasSubstr("no integer output has that name"));
  EXPECT_EQ(Refusal(undelivered, "the_Labels", false), "");
  const PipelineSignature boxless = SignatureOf(kLabels, "outputs: [image, the_Labels]\n");
  EXPECT_THAT(Refusal(boxless, "the_Labels"), HasSubstr("there are no boxes to draw it at"));
  EXPECT_EQ(Refusal(boxless, "the_Labels", false), "");
}

// Boxes of one sample at most on an image of 100 pixels, beside other features.
constexpr int64_t kBound = 4;
const std::vector<float> kFour = {0, 0, 9, 9, 10, 10, 19, 19, 20, 20, 29, 29, 30, 30, 39, 39};
const std::vector<int64_t> kNumbered = {7, 8, 9, 5};

std::vector<LabelledBoxes> Declared() {
  LabelledBoxes boxes;
  boxes.boxes.name = "boxes";
  boxes.boxes.annotation = Annotation{};
  boxes.boxes.annotation->kind = Annotation::Kind::kBoxes;
  boxes.boxes.annotation->format = v1::BOX_FORMAT_XYXY;
  boxes.labels = "labels";
  return {boxes};
}

BatchMaker PaddedBoxes(int64_t count) {
  BatchMaker maker(1);
  maker.Add("boxes", ElementType::kFloat32, {1, kBound, 4}, kFour)
      .Add<int64_t>("boxes_count", ElementType::kInt64, {1}, {count});
  return maker;
}

BatchMaker PackedBoxes(int64_t count) {
  BatchMaker maker(1);
  const std::vector<float> rows(kFour.begin(), kFour.begin() + count * 4);
  maker.Add("boxes", ElementType::kFloat32, {count, 4}, rows).Packed({0, count});
  return maker;
}

void AddPacked(int64_t count, BatchMaker& maker) {
  const std::vector<int64_t> rows(kNumbered.begin(), kNumbered.begin() + count);
  maker.Add("labels", ElementType::kInt64, {count}, rows).Packed({0, count});
}

// The labels drawn, one for each box; checks that StandAtBoxes agrees.
std::vector<std::string> Drawn(const BatchMaker& maker) {
  const Batch batch = maker.Make();
  std::vector<std::string> labels;
  bool any = false;
  for (const PreviewBox& box : BoxesOf(batch, 0, Declared(), {100, 100})) {
    labels.push_back(box.label);
    any = any || !box.label.empty();
  }
  EXPECT_EQ(StandAtBoxes(batch, 0, Declared(), "labels"), any);
  EXPECT_FALSE(StandAtBoxes(batch, 0, Declared(), "others"));
  return labels;
}

using Labels = std::vector<std::string>;

TEST(PreviewBoxesTest, AsManyLabelsAsBoxesStandAtThem) {
  BatchMaker padded = PaddedBoxes(3);
  padded.Add("labels", ElementType::kInt64, {1, kBound}, kNumbered)
      .Add<int64_t>("labels_count", ElementType::kInt64, {1}, {3});
  EXPECT_EQ(Drawn(padded), (Labels{"7", "8", "9"}));
  BatchMaker packed = PackedBoxes(3);
  AddPacked(3, packed);
  EXPECT_EQ(Drawn(packed), (Labels{"7", "8", "9"}));
}

TEST(PreviewBoxesTest, LabelsWithoutACountArePaddedAsTheirBoxes) {
  BatchMaker maker = PaddedBoxes(3);
  maker.Add("labels", ElementType::kInt64, {1, kBound}, kNumbered);
  EXPECT_EQ(Drawn(maker), (Labels{"7", "8", "9"}));
}

TEST(PreviewBoxesTest, AnotherNumberOfLabelsThanBoxesGivesNone) {
  for (const int64_t count : {2, 4}) {
    BatchMaker padded = PaddedBoxes(3);
    padded.Add("labels", ElementType::kInt64, {1, kBound}, kNumbered)
        .Add<int64_t>("labels_count", ElementType::kInt64, {1}, {count});
    EXPECT_EQ(Drawn(padded), (Labels{"", "", ""})) << count << " labels, padded";
    BatchMaker packed = PackedBoxes(3);
    AddPacked(count, packed);
    EXPECT_EQ(Drawn(packed), (Labels{"", "", ""})) << count << " labels, packed";
    BatchMaker mixed = PaddedBoxes(3);
    AddPacked(count, mixed);
    EXPECT_EQ(Drawn(mixed), (Labels{"", "", ""})) << count << " labels, packed, boxes padded";
  }
}

TEST(PreviewBoxesTest, NumbersOfClassesBecomeTheirNames) {
  BatchMaker maker = PaddedBoxes(3);
  maker.Add("labels", ElementType::kInt64, {1, kBound}, kNumbered);
  std::vector<std::string> names(9, "another");
  names[8] = "a cat";
  const ClassNames classes = {{"labels", names}, {"others", {"no label of these boxes"}}};
  Labels labels;
  for (const PreviewBox& box : BoxesOf(maker.Make(), 0, Declared(), {100, 100}, classes)) {
    labels.push_back(box.label);
  }
  EXPECT_EQ(labels, (Labels{"another", "a cat", "9"})) << "there are nine, from 0";
  EXPECT_EQ(ClassName("-1", "labels", classes), "-1");
  EXPECT_EQ(ClassName("0", "none", classes), "0");
}

TEST(PreviewBoxesTest, WholeNumbersKeepAllTheirDigits) {
  BatchMaker maker(3);
  maker
      .Add<int64_t>("a", ElementType::kInt64, {3},
                    {-9007199254740993, 9007199254740993, std::numeric_limits<int64_t>::min()})
      .Add<uint64_t>("b", ElementType::kUint64, {3},
                     {0, std::numeric_limits<uint64_t>::max(), 9007199254740993})
      .Add<int32_t>("c", ElementType::kInt32, {3}, {-1234567, 7, 2147483647});
  const Batch batch = maker.Make();
  std::vector<Labels> told;
  for (const Tensor& tensor : batch.tensors()) {
    Labels& numbers = told.emplace_back();
    for (uint64_t i = 0; i < 3; ++i) numbers.push_back(WholeNumberAt(tensor, i));
  }
  EXPECT_EQ(told[0], (Labels{"-9007199254740993", "9007199254740993", "-9223372036854775808"}));
  EXPECT_EQ(told[1], (Labels{"0", "18446744073709551615", "9007199254740993"}));
  EXPECT_EQ(told[2], (Labels{"-1234567", "7", "2147483647"}));
}

}  // namespace
}  // namespace bulkhead::tools
