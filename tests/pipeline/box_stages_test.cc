// Stages that work on boxes, points and masks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "absl/strings/str_split.h"
#include "server/image/boxes/iou_crop.h"
#include "server/image/color/color.h"
#include "server/pipeline/stage_observer.h"
#include "server/stages/running/sample_stage.h"
#include "tests/pipeline/detection_fixture.h"

namespace bulkhead::detection_testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ConvertBoxesTest, WorksWhereTheImageIsFloatsAlready) {
  const Made made(kDecoded + In("boxes { format: BOX_FORMAT_XYXY }") +
                      In("resize { size: [120, 160] }") + In("normalize { divide: 255 }") +
                      In("layout { to: IMAGE_LAYOUT_NCHW }") +
                      In("convert_boxes { to: BOX_FORMAT_XYWH relative: true }"),
                  PictureRecord({20, 15, 60, 30}));
  EXPECT_THAT(made.Box(), ElementsAre(0.25, 0.25, 0.5, 0.25));
}

std::string Sanitize(const std::string& options) {
  return kDecoded + std::string(kDeclared) +
         In("sanitize_boxes { with: ['labels', 'points'] " + options + " }") + FinalSize();
}

// Labels of what is left.
std::vector<int64_t> Kept(const std::string& options, const std::vector<float>& boxes) {
  const Made made(Sanitize(options), PictureRecord(boxes));
  EXPECT_TRUE(made.status().ok()) << made.status();
  if (!made.status().ok()) return {};
  const int64_t count = made.Whole("boxes_count")[0];
  EXPECT_EQ(made.Whole("labels_count")[0], count);
  EXPECT_EQ(made.Whole("points_count")[0], count);
  std::vector<int64_t> labels = made.Whole("labels");
  for (size_t i = count; i < labels.size(); ++i) EXPECT_EQ(labels[i], 0);
  labels.resize(count);
  return labels;
}

TEST(SanitizeBoxesTest, DropsWhatIsOfNoUseWithItsRows) {
  const std::vector<float> boxes = {10, 10, 10, 20, 5, 5, 6, 6, 30, 30, 20, 40, 70, 50, 90, 70};
  EXPECT_THAT(Kept("", boxes), ElementsAre(101, 103));
  EXPECT_THAT(Kept("min_size: 2", boxes), ElementsAre(103));
  EXPECT_THAT(Kept("min_size: 10", boxes), ElementsAre(103));
  EXPECT_THAT(Kept("min_size: 10.5", boxes), ElementsAre());
  EXPECT_THAT(Kept("min_area: 1.5", boxes), ElementsAre(103));
  EXPECT_THAT(Kept("min_size: 0.5 min_area: 101", boxes), ElementsAre());
  // Beyond the edges: cut, or dropped.
  EXPECT_THAT(Kept("clamp: false", boxes), ElementsAre(101));
  EXPECT_THAT(Kept("", {}), ElementsAre());
}

TEST(SanitizeBoxesTest, CutsAtTheEdges) {
  const std::string last = In("sanitize_boxes {}");
  const std::string whole = kDecoded + In("boxes { format: BOX_FORMAT_XYXY }") + FinalSize();
  const Made cut(whole + last, PictureRecord({-8, 12, 88, 24}));
  EXPECT_THAT(cut.Box(), ElementsAre(0, 10, 70, 20));
  const Made inset(whole + In("sanitize_boxes { epsilon: 2 }"), PictureRecord({-8, 0, 88, 24}));
  EXPECT_THAT(inset.Box(), ElementsAre(2, 2, 68, 20));
  const Made relative(kDecoded + In("boxes { format: BOX_FORMAT_XYXY relative: true }") +
                          FinalSize() + In("sanitize_boxes { epsilon: 0.125 }"),
                      PictureRecord({-0.5, 0.25, 1.5, 0.5}));
  EXPECT_THAT(relative.Box(), ElementsAre(0.125, 0.25, 0.875, 0.5));
}

TEST(SanitizeBoxesTest, KnowsWhatCropsLeft) {
  // A crop of [10, 10, 70, 50] leaves a half, a quarter, all, nothing.
  const std::vector<float> boxes = {0, 20, 20, 40, 60, 40, 80, 60, 20, 20, 30, 30, 0, 0, 8, 8};
  const auto kept = [&](const std::string& options) {
    const Made made(kDecoded + std::string(kDeclared) + In("center_crop { size: [40, 60] }") +
                        In("random_horizontal_flip {}") + In("pad { size: [200, 200] }") +
                        In("sanitize_boxes { with: 'labels' " + options + " }") + FinalSize(),
                    PictureRecord(boxes));
    std::vector<int64_t> labels = made.Whole("labels");
    labels.resize(made.Whole("labels_count")[0]);
    return labels;
  };
  EXPECT_THAT(kept(""), ElementsAre(100, 101, 102));
  EXPECT_THAT(kept("min_visibility: 0.25"), ElementsAre(100, 101, 102));
  EXPECT_THAT(kept("min_visibility: 0.26"), ElementsAre(100, 102));
  EXPECT_THAT(kept("min_visibility: 0.51"), ElementsAre(102));
  EXPECT_THAT(kept("min_visibility: 1"), ElementsAre(102));
  // Its own cut counts as well.
  EXPECT_THAT(Kept("min_visibility: 0.6", {-10, 0, 10, 20, 30, 0, 40, 10}), ElementsAre(101));
}

TEST(SanitizeBoxesTest, WantsARowForEachBox) {
  FakeRecord record = PictureRecord();
  record.features["labels"] = {BytesOf<int64_t>({1}), 1};
  const Made made(Sanitize(""), record);
  ASSERT_TRUE(IsSampleError(made.status())) << made.status();
  EXPECT_EQ(GetErrorInfo(made.status())->reason, reason::kRowsDiffer);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("`labels` has 1 rows"));
}

TEST(RandomIouCropTest, EmptiesBoxesWhoseMiddleIsOutside) {
  const std::string stages =
      kDecoded + std::string(kDeclared) + In("random_iou_crop { min_overlap: 0 }") +
      In("pad { size: [60, 80] }") + In("sanitize_boxes { with: ['labels', 'points'] }");
  int dropped = 0;
  for (uint64_t position = 0; position < 40; ++position) {
    const Made made(stages, PictureRecord(), {3, 1, position});
    ASSERT_TRUE(made.status().ok()) << made.status();
    SampleRandom random(3, 1, position, StableHash("stages/5"));
    IouCropBounds bounds;
    bounds.min_overlaps = {0};
    std::vector<Box> boxes;
    for (size_t i = 0; i < kBoxes.size(); i += 4) {
      boxes.push_back({kBoxes[i], kBoxes[i + 1], kBoxes[i + 2], kBoxes[i + 3]});
    }
    const Rect rect = RandomIouRect({kHeight, kWidth}, boxes, bounds, random).value();
    std::vector<int64_t> expected;
    for (size_t i = 0; i < boxes.size(); ++i) {
      if (HasMiddleIn(boxes[i], rect)) expected.push_back(100 + static_cast<int64_t>(i));
    }
    dropped += expected.size() < boxes.size();
    std::vector<int64_t> labels = made.Whole("labels");
    labels.resize(made.Whole("labels_count")[0]);
    EXPECT_EQ(labels, expected);
    EXPECT_FALSE(expected.empty());
    // The first one that is left, cut at the rectangle.
    const Box& box = boxes[expected[0] - 100];
    EXPECT_FLOAT_EQ(made.Box()[0], std::max(box.left - rect.left, 0.0));
    EXPECT_FLOAT_EQ(made.Box()[3], std::min<double>(box.bottom - rect.top, rect.height));
  }
  EXPECT_GT(dropped, 10);
}

TEST(RandomZoomOutTest, PutsTheImageIntoALargerCanvas) {
  const Image picture = MakePicture(kHeight, kWidth, 1);
  int acted = 0;
  for (uint64_t position = 0; position < 30; ++position) {
    const Made made(kDecoded + std::string(kDeclared) +
                        In("random_zoom_out { side_range: [1, 2] fill: 9 }") +
                        In("pad { size: [120, 160] fill: 9 }"),
                    PictureRecord(), {3, 1, position});
    SampleRandom random(3, 1, position, StableHash("stages/5"));
    int left = 0;
    int top = 0;
    if (random.NextUnit() < 0.5) {
      ++acted;
      const double factor = random.NextUniform(1, 2);
      left = static_cast<int>((static_cast<int>(80 * factor) - 80) * random.NextUnit());
      top = static_cast<int>((static_cast<int>(60 * factor) - 60) * random.NextUnit());
    }
    EXPECT_THAT(made.Box(), ElementsAre(10 + left, 8 + top, 34 + left, 30 + top));
    const std::string pixels = made.Bytes("image");
    for (int y = 0; y < 120; ++y) {
      for (int x = 0; x < 160; ++x) {
        const bool inside = y >= top && y < top + kHeight && x >= left && x < left + kWidth;
        ASSERT_EQ(static_cast<uint8_t>(pixels[y * 160 + x]),
                  inside ? picture.view().row(y - top)[x - left] : 9);
      }
    }
  }
  EXPECT_GT(acted, 5);
  EXPECT_LT(acted, 25);
}

TEST(RandomZoomOutTest, TooLargeACanvasIsASampleError) {
  const Made made(kDecoded + In("random_zoom_out { side_range: [90, 100] probability: 1 }") +
                  FinalSize());
  ASSERT_TRUE(IsSampleError(made.status())) << made.status();
  EXPECT_EQ(GetErrorInfo(made.status())->reason, reason::kImageTooLarge);
  EXPECT_EQ(GetErrorInfo(made.status())->metadata.at("stage"), "stages[2] random_zoom_out");
}

TEST(RandomPhotometricDistortTest, ChangesInTorchvisionsOrder) {
  const std::string file = EncodePng(MakePicture(kHeight, kWidth, 3).view()).value();
  std::set<std::string> different;
  for (uint64_t position = 0; position < 60; ++position) {
    const Made made(In("decode_image {}") + In("resize { size: [60, 80] }") +
                        In("random_photometric_distort {}") + " outputs: 'image'",
                    Detection(file, file, kBoxes), {3, 1, position});
    ASSERT_TRUE(made.status().ok()) << made.status();
    SampleRandom random(3, 1, position, StableHash("stages/2"));
    const bool brighter = random.NextUnit() < 0.5;
    const double brightness = random.NextUniform(0.875, 1.125);
    const bool contrasts = random.NextUnit() < 0.5;
    const double contrast = random.NextUniform(0.5, 1.5);
    const bool saturates = random.NextUnit() < 0.5;
    const double saturation = random.NextUniform(0.5, 1.5);
    const bool turns = random.NextUnit() < 0.5;
    const double hue = random.NextUniform(-0.05, 0.05);
    const bool contrast_first = random.NextUnit() < 0.5;
    const bool permutes = random.NextUnit() < 0.5;
    int order[3] = {0, 1, 2};
    std::swap(order[2], order[random.NextBelow(3)]);
    std::swap(order[1], order[random.NextBelow(2)]);
    Image image = MakePicture(kHeight, kWidth, 3);
    const MutableImageView view = image.mutable_view();
    if (brighter) AdjustBrightness(brightness, view);
    if (contrasts && contrast_first) AdjustContrast(contrast, view);
    if (saturates) AdjustSaturation(saturation, view);
    if (turns) AdjustHue(hue, view);
    if (contrasts && !contrast_first) AdjustContrast(contrast, view);
    std::string expected = PixelsOf(view);
    if (permutes) {
      const std::string before = expected;
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = before[i - i % 3 + order[i % 3]];
    }
    ASSERT_TRUE(made.Bytes("image") == expected) << position;
    different.insert(expected);
  }
  EXPECT_GT(different.size(), 40u);
}

TEST(PadRowsTest, GivesAFixedNumberOfRowsAndCountsThem) {
  const std::string boxes = In("pad_rows { to: 5 value: -1 count: 'how_many' }");
  const std::string labels = In("pad_rows { input: 'labels' value: 7 }");
  const std::string outputs = " outputs: ['boxes', 'how_many', 'labels']";
  const Made made(boxes + labels + outputs);
  EXPECT_EQ(made.outputs().size(), 3u);
  const std::vector<float> numbers = made.Floats("boxes");
  ASSERT_EQ(numbers.size(), 20u);
  EXPECT_EQ(std::vector<float>(numbers.begin(), numbers.begin() + 12), kBoxes);
  for (size_t i = 12; i < 20; ++i) EXPECT_EQ(numbers[i], -1);
  EXPECT_THAT(made.Whole("how_many"), ElementsAre(3));
  EXPECT_THAT(made.Whole("labels"), ElementsAre(100, 101, 102, 7));
  const Made none(boxes + labels + outputs, PictureRecord({}));
  EXPECT_THAT(none.Whole("labels"), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(none.Whole("how_many"), ElementsAre(0));
}

// Notes whether the last stage's boxes have shares of what is left of each.
class SharesNote final : public StageObserver {
 public:
  void BeginSample(const SampleKey&) override {}
  void NameSample(absl::string_view) override {}
  void Enter(uint32_t) override {}
  void Leave(uint32_t, const StageValues& values) override {
    has_shares = values[values.size() - 1].visible != nullptr;
  }
  void EndSample() override {}
  bool has_shares = false;
};

bool HasSharesBehind(const std::string& stage) {
  PipelineUnderTest pipeline(
      MakeSpec(kDecoded + In("boxes { format: BOX_FORMAT_XYXY }") + In("center_crop { size: 30 }") +
                   stage + " outputs: ['boxes']",
               kDetection),
      {PictureRecord()});
  SharesNote note;
  pipeline.context().observer = &note;
  EXPECT_TRUE(pipeline.Produce(0, {3, 1, 0}).status.ok());
  return note.has_shares;
}

// There are fewer shares than rows then.
TEST(PadRowsTest, ForgetsWhatIsLeftOfBoxes) {
  EXPECT_TRUE(HasSharesBehind(In("convert_boxes { input: 'boxes' to: BOX_FORMAT_CXCYWH }")));
  EXPECT_FALSE(HasSharesBehind(In("pad_rows { to: 100 }")));
  EXPECT_FALSE(HasSharesBehind(In("cast { input: 'boxes' dtype: DTYPE_FLOAT64 }")));
}

TEST(PadRowsTest, TooManyRowsAreAnErrorOrCut) {
  const std::string outputs = " outputs: ['boxes']";
  const Made refused(In("pad_rows { to: 2 }") + outputs);
  ASSERT_TRUE(IsSampleError(refused.status())) << refused.status();
  EXPECT_EQ(GetErrorInfo(refused.status())->reason, reason::kOverBound);
  const Made cut(In("pad_rows { to: 2 overflow: OVERFLOW_TRUNCATE count: 'n' }") +
                 " outputs: ['boxes', 'n']");
  EXPECT_EQ(cut.Floats("boxes"), std::vector<float>(kBoxes.begin(), kBoxes.begin() + 8));
  EXPECT_THAT(cut.Whole("n"), ElementsAre(2));
}

}  // namespace
}  // namespace bulkhead::detection_testing
