#include "tools/preview/preview_caption.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/made_batch.h"

namespace bulkhead::tools {
namespace {

using Lines = std::vector<std::string>;

// Of sample 0 of a batch whose first tensor is the one that is shown.
Lines CaptionIn(const BatchMaker& maker, const std::vector<LabelledBoxes>& boxes = {}) {
  const Batch batch = maker.Make();
  return CaptionOf(batch, batch.tensors()[0], boxes, 0);
}

BatchMaker ImageBatch() {
  BatchMaker maker(1);
  maker.Add("image", ElementType::kUint8, {1, 2, 2, 3}, std::vector<uint8_t>(12));
  return maker;
}

TEST(PreviewCaptionTest, SaysWholeNumbersDigitByDigit) {
  BatchMaker maker = ImageBatch();
  maker.Add<int64_t>("id", ElementType::kInt64, {1}, {9007199254740993})
      .Add<int32_t>("year", ElementType::kInt32, {1, 1}, {1234567})
      .Add<float>("score", ElementType::kFloat32, {1}, {0.25F});
  EXPECT_EQ(CaptionIn(maker),
            (Lines{"position 0", "id 9007199254740993", "year 1234567", "score 0.25"}));
}

TEST(PreviewCaptionTest, SaysTheNamesOfAnOutputsOwnClasses) {
  BatchMaker maker = ImageBatch();
  maker.Add<int64_t>("label", ElementType::kInt64, {1}, {1})
      .Add<int64_t>("label_2", ElementType::kInt64, {1}, {1})
      .Add<int64_t>("class", ElementType::kInt64, {1}, {0});
  const Batch batch = maker.Make();
  const ClassNames classes = {{"label", {"emu", "cat"}}, {"class", {"red"}}};
  EXPECT_EQ(CaptionOf(batch, batch.tensors()[0], {}, 0, classes),
            (Lines{"position 0", "label 1 cat", "label_2 1", "class 0 red"}));
}

TEST(PreviewCaptionTest, SaysLabelsThatDoNotStandAtBoxes) {
  LabelledBoxes labelled;
  labelled.boxes.name = "boxes";
  labelled.boxes.annotation = Annotation{};
  labelled.labels = "labels";
  for (const int64_t count : {1, 2}) {
    BatchMaker maker = ImageBatch();
    maker.Add("boxes", ElementType::kFloat32, {1, 2, 4}, std::vector<float>(8))
        .Add<int64_t>("labels", ElementType::kInt64, {1, 2}, {31, 32})
        .Add<int64_t>("labels_count", ElementType::kInt64, {1}, {count});
    const Lines lines = CaptionIn(maker, {labelled});
    const bool said = std::find(lines.begin(), lines.end(), "labels 31") != lines.end();
    EXPECT_EQ(said, count == 1) << count << " labels for two boxes";
    const bool both = std::find(lines.begin(), lines.end(), "labels 31 32") != lines.end();
    EXPECT_FALSE(both);
  }
}

}  // namespace
}  // namespace bulkhead::tools
