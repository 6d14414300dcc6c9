// Declared boxes, points and masks behind the stages that move their image.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "absl/strings/str_split.h"
#include "tests/pipeline/detection_fixture.h"

namespace bulkhead::detection_testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Every stage that moves pixels, each in a way that takes values as they are.
const std::vector<std::string>& MovingStages() {
  static const auto& stages = *new std::vector<std::string>{
      "resize { size: [45, 90] interpolation: INTERPOLATION_NEAREST }",
      "resize { shorter_side: 40 interpolation: INTERPOLATION_NEAREST }",
      "resize { size: [45, 90] interpolation: INTERPOLATION_NEAREST centers: PIXEL_CENTERS_ALIGNED "
      "}",
      "resize { size: [45, 90] interpolation: INTERPOLATION_NEAREST centers: PIXEL_CENTERS_CORNER "
      "}",
      "center_crop { size: [41, 57] }",
      "random_crop { size: [41, 57] }",
      "random_crop { size: [58, 78] padding: [5, 0, 9, 2] }",
      "random_resized_crop { size: 48 interpolation: INTERPOLATION_NEAREST }",
      "random_horizontal_flip { probability: 0.7 }",
      "random_vertical_flip { probability: 0.7 }",
      "pad { padding: [3, 4, 5, 6] }",
      "pad { size: [90, 100] }",
      "letterbox { size: [64, 64] interpolation: INTERPOLATION_NEAREST fill: 0 }",
      "random_affine { degrees: 40 translate: [0.1, 0.2] scale: [0.8, 1.3] shear: [-20, 20, -9, 9] "
      "}",
      "random_perspective { probability: 0.8 distortion: 0.4 interpolation: INTERPOLATION_NEAREST "
      "}",
      "random_iou_crop {}",
      "random_zoom_out { probability: 0.8 side_range: [1, 2.5] }",
  };
  return stages;
}

TEST(DeclaredMaskTest, IsTheImageAgainBehindEveryStage) {
  for (const std::string& stage : MovingStages()) {
    SCOPED_TRACE(stage);
    std::set<std::string> different;
    for (uint64_t position = 0; position < 12; ++position) {
      const std::string stages = FinalSize(kDecoded + std::string(kDeclared) + In(stage));
      const Made made(stages, PictureRecord(), {3, 1, position});
      ASSERT_TRUE(made.status().ok()) << made.status();
      ASSERT_TRUE(made.Bytes("image") == made.Bytes("mask")) << position;
      different.insert(made.Bytes("mask"));
    }
    if (stage.find("random") == 0) {
      EXPECT_GT(different.size(), 1u);
    }
  }
}

TEST(DeclaredAnnotationsTest, AntialiasSmoothsTheImageAndMovesTheRestAsBefore) {
  for (uint64_t position = 0; position < 12; ++position) {
    const auto made = [&](const std::string& antialias) {
      const std::string crop = "random_resized_crop { size: 24 scale: [0.5, 1] " + antialias + "}";
      return Made(kDecoded + std::string(kDeclared) + In(crop), PictureRecord(), {3, 1, position});
    };
    const Made smooth = made("antialias: true ");
    const Made plain = made("");
    EXPECT_FALSE(smooth.Bytes("image") == plain.Bytes("image")) << position;
    EXPECT_EQ(smooth.Floats("boxes"), plain.Floats("boxes")) << position;
    EXPECT_EQ(smooth.Floats("points"), plain.Floats("points")) << position;
    EXPECT_TRUE(smooth.Bytes("mask") == plain.Bytes("mask")) << position;
  }
}

TEST(DeclaredMaskTest, IsTheImageAgainBehindManyStagesInARow) {
  // Every stage behind a copy and a cut of it: the memory that a step reads is not what it writes.
  for (uint64_t position = 0; position < 60; ++position) {
    SampleRandom random(23, 0, position, 0);
    std::string stages = kDecoded + std::string(kDeclared);
    for (int i = 0; i < 6; ++i) {
      stages += In("resize { size: [60, 80] interpolation: INTERPOLATION_NEAREST }");
      stages += In("center_crop { size: [59, 79] }");
      stages += In(MovingStages()[random.NextBelow(MovingStages().size())]);
    }
    const Made made(FinalSize(stages), PictureRecord(), {3, 1, position});
    ASSERT_TRUE(made.status().ok()) << made.status();
    ASSERT_TRUE(made.Bytes("image") == made.Bytes("mask")) << stages;
  }
}

TEST(DeclaredMaskTest, FollowsTheAugmentsThatMove) {
  // Colours change as well, so that only black and white stay what they are; and those not always.
  const Image picture = MakePicture(kHeight, kWidth, 1);
  int moved = 0;
  for (uint64_t position = 0; position < 60; ++position) {
    const std::string stages =
        FinalSize(kDecoded + std::string(kDeclared) + In("trivial_augment {}"));
    const Made made(stages, PictureRecord(), {3, 1, position});
    ASSERT_TRUE(made.status().ok()) << made.status();
    const Made still(FinalSize(kDecoded + std::string(kDeclared)), PictureRecord(),
                     {3, 1, position});
    SampleRandom random(3, 1, position, StableHash("stages/5"));
    const uint64_t op = random.NextBelow(14);
    if (op >= 1 && op <= 5) {
      ++moved;
      EXPECT_TRUE(made.Bytes("mask") == made.Bytes("image"));
    } else {
      EXPECT_TRUE(made.Bytes("mask") == still.Bytes("mask"));
    }
  }
  EXPECT_GT(moved, 10);
}

TEST(DeclaredMaskTest, FillsWhatHadNoPixels) {
  const std::string stages =
      kDecoded + In("mask { fill: 255 }") + In("pad { size: [64, 80] fill: 7 }");
  const Made made(stages);
  const std::string mask = made.Bytes("mask");
  EXPECT_EQ(mask.substr(0, 60 * 80), PixelsOf(MakePicture(kHeight, kWidth, 1).view()));
  EXPECT_EQ(mask.substr(60 * 80), std::string(4 * 80, '\xff'));
  EXPECT_EQ(made.Bytes("image").substr(60 * 80), std::string(4 * 80, '\x07'));
}

TEST(DeclaredMaskTest, OfAnotherSizeIsASampleError) {
  FakeRecord record = PictureRecord();
  record.features["mask"] = {EncodePng(MakePicture(kHeight, kWidth - 1, 1).view()).value()};
  const Made made(FinalSize(kDecoded + std::string(kDeclared)), record);
  ASSERT_TRUE(IsSampleError(made.status())) << made.status();
  EXPECT_EQ(GetErrorInfo(made.status())->reason, reason::kImageSizesDiffer);
  EXPECT_EQ(GetErrorInfo(made.status())->metadata.at("stage"), "stages[4] mask");
  // Declared before its image is decoded together with a crop: said by the crop.
  const Made joined(In("decode_image { input: 'mask' color: COLOR_GRAY }") +
                        In("decode_image { color: COLOR_GRAY }") + In("mask {}") +
                        In("center_crop { size: 20 }"),
                    record);
  ASSERT_TRUE(IsSampleError(joined.status())) << joined.status();
  EXPECT_EQ(GetErrorInfo(joined.status())->reason, reason::kImageSizesDiffer);
}

// A dark picture with one bright rectangle, that of the box.
FakeRecord MarkedRecord(const Rect& rect) {
  Image image;
  const MutableImageView view = image.Reshape({kHeight, kWidth}, 1);
  std::memset(view.data, 0, view.row_bytes() * view.height);
  for (int y = rect.top; y < rect.bottom(); ++y) {
    std::memset(view.row(y) + rect.left, 255, rect.width);
  }
  const std::string file = EncodePng(view).value();
  return Detection(file, file,
                   {static_cast<float>(rect.left), static_cast<float>(rect.top),
                    static_cast<float>(rect.right()), static_cast<float>(rect.bottom())});
}

TEST(DeclaredBoxesTest, HoldTheirPixelsBehindEveryStage) {
  const ImageSize size = {50, 70};
  int seen = 0;
  for (const std::string& stage : MovingStages()) {
    SCOPED_TRACE(stage);
    for (uint64_t position = 0; position < 20; ++position) {
      SampleRandom random(17, 0, position, 0);
      const Rect rect = {
          static_cast<int>(random.NextBelow(35)), static_cast<int>(random.NextBelow(45)),
          10 + static_cast<int>(random.NextBelow(15)), 10 + static_cast<int>(random.NextBelow(25))};
      const Made made(FinalSize(kDecoded + std::string(kDeclared) + In(stage)), MarkedRecord(rect),
                      {3, 1, position});
      ASSERT_TRUE(made.status().ok()) << made.status();
      const std::vector<float> box = made.Box();
      const std::string pixels = made.Bytes("image");
      // An IoU crop may leave a box out that still has some pixels.
      if (stage.find("random_iou_crop") == 0 && box[2] <= box[0]) continue;
      for (int y = 0; y < size.height; ++y) {
        for (int x = 0; x < size.width; ++x) {
          if (static_cast<uint8_t>(pixels[y * size.width + x]) < 128) continue;
          ++seen;
          // Nearest resizing, twice at most, may shift by a pixel of its result each time.
          constexpr double kShift = 2.01;
          ASSERT_GE(x + 0.5, box[0] - kShift);
          ASSERT_LE(x + 0.5, box[2] + kShift);
          ASSERT_GE(y + 0.5, box[1] - kShift);
          ASSERT_LE(y + 0.5, box[3] + kShift);
        }
      }
      // The whole canvas at most.
      EXPECT_GE(box[0], 0);
      EXPECT_LE(box[2], size.width + 1e-3);
    }
  }
  EXPECT_GT(seen, 50000);
}

TEST(DeclaredBoxesTest, EveryFormatMovesAlike) {
  const std::vector<std::string> formats = {"BOX_FORMAT_XYXY", "BOX_FORMAT_XYWH",
                                            "BOX_FORMAT_CXCYWH"};
  // Middles that lie on no edge of a crop.
  const std::vector<float> boxes_between = {10.3f, 8.2f, 34.1f, 30.4f, 40.6f, 20.1f, 78.3f, 55.9f};
  for (const std::string& stage : MovingStages()) {
    SCOPED_TRACE(stage);
    const std::string declared = kDecoded + In("boxes { format: BOX_FORMAT_XYXY }");
    for (uint64_t position = 0; position < 4; ++position) {
      const SampleKey key{3, 1, position};
      // With as many stages in front, so that the stage has the same draws.
      const Made straight(
          declared + In("boxes { format: BOX_FORMAT_XYXY }") + In(stage) + FinalSize(),
          PictureRecord(boxes_between), key);
      for (const std::string& format : formats) {
        for (const std::string relative : {"false", "true"}) {
          const Made made(
              declared + In("convert_boxes { to: " + format + " relative: " + relative + " }") +
                  In(stage) + FinalSize() +
                  In("convert_boxes { to: BOX_FORMAT_XYXY relative: false }"),
              PictureRecord(boxes_between), key);
          const std::vector<float> expected = straight.Floats("boxes");
          const std::vector<float> boxes = made.Floats("boxes");
          for (size_t i = 0; i < expected.size(); ++i) {
            ASSERT_NEAR(boxes[i], expected[i], 2e-4) << format << relative << i;
          }
        }
      }
    }
  }
}

TEST(DeclaredBoxesTest, AreDeliveredAsDeclared) {
  const Made made(kDecoded + In("boxes { format: BOX_FORMAT_CXCYWH relative: true }") +
                      In("pad { size: [120, 160] }"),
                  PictureRecord({0.5, 0.5, 0.25, 0.5}));
  EXPECT_THAT(made.Box(), ElementsAre(0.25, 0.25, 0.125, 0.25));
  EXPECT_EQ(made.Whole("boxes_count")[0], 1);
}

TEST(DeclaredBoxesTest, BelongToTheImageAsItIsThere) {
  // Declared behind a resize: its coordinates are those of the resized image.
  const Made made(kDecoded + In("resize { size: [120, 160] }") +
                      In("boxes { format: BOX_FORMAT_XYXY }") +
                      In("random_horizontal_flip { probability: 1 }"),
                  PictureRecord({10, 20, 30, 50}));
  EXPECT_THAT(made.Box(), ElementsAre(130, 20, 150, 50));
}

TEST(DeclaredBoxesTest, OnlyThoseOfTheMovedImageMove) {
  const Made made(kDecoded + In("boxes { format: BOX_FORMAT_XYXY image: 'mask' }") +
                      In("random_horizontal_flip { probability: 1 }") +
                      In("resize { size: [30, 40] }") + In("resize { input: 'mask' size: 60 }"),
                  PictureRecord({10, 20, 30, 50}));
  EXPECT_THAT(made.Box(), ElementsAre(7.5, 20, 22.5, 50));
}

TEST(DeclaredBoxesTest, FollowThroughConcat) {
  const Made made(kDecoded + In("boxes { format: BOX_FORMAT_XYXY image: 'mask' }") +
                      In("concat { inputs: ['image', 'mask'] output: 'both' }") +
                      In("random_horizontal_flip { input: 'both' probability: 1 }") +
                      In("resize { input: 'both' size: [60, 80] }") + " outputs: ['both', 'boxes']",
                  PictureRecord({10, 20, 30, 50}));
  EXPECT_THAT(made.Box(), ElementsAre(50, 20, 70, 50));
}

TEST(DeclaredBoxesTest, NumbersMustBeFinite) {
  const std::vector<float> bad = {1, 2, 3, 4, 5, NAN, 7, 8};
  const Made made(FinalSize(kDecoded + std::string(kDeclared)), PictureRecord(bad));
  ASSERT_TRUE(IsSampleError(made.status())) << made.status();
  EXPECT_EQ(GetErrorInfo(made.status())->reason, reason::kBadCoordinates);
  EXPECT_EQ(GetErrorInfo(made.status())->metadata.at("stage"), "stages[2] boxes");
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("row 1 has the coordinate nan"));
}

// What is delivered does not depend on which stages run as one.
TEST(DeclaredBoxesTest, MoveAlikeFusedAndNot) {
  const std::vector<std::string> ways = {
      "random_resized_crop { size: 32 }|random_horizontal_flip {}|normalize { divide: 255 }|layout "
      "{ "
      "to: IMAGE_LAYOUT_NCHW }",
      "random_horizontal_flip {}|resize { size: 32 }|random_horizontal_flip {}|normalize { divide: "
      "2 "
      "}",
      "random_crop { size: [40, 50] }|resize { size: 32 interpolation: INTERPOLATION_AREA "
      "}|random_horizontal_flip {}",
      "center_crop { size: 50 }|random_horizontal_flip {}|resize { size: 32 }|normalize { divide: "
      "2 "
      "}|layout { to: IMAGE_LAYOUT_NCHW }",
  };
  const Image picture = MakePicture(kHeight, kWidth, 3);
  const FakeRecord record = Detection(EncodeJpeg(picture.view(), {}).value(),
                                      EncodePng(MakePicture(kHeight, kWidth, 1).view()).value(),
                                      {10, 8, 34.3, 30.7, 40.1, 20, 78, 55.5});
  for (const std::string& way : ways) {
    SCOPED_TRACE(way);
    std::string stages =
        In("decode_image { input: 'mask' color: COLOR_GRAY }") + In("decode_image {}") + kDeclared;
    for (const absl::string_view stage : absl::StrSplit(way, '|')) {
      stages += In(std::string(stage));
    }
    std::set<std::string> different;
    for (uint64_t position = 0; position < 40; ++position) {
      const Made fused(stages, record, {3, 1, position}, true);
      const Made unfused(stages, record, {3, 1, position}, false);
      ASSERT_TRUE(fused.status().ok()) << fused.status();
      ASSERT_TRUE(fused.outputs() == unfused.outputs()) << position;
      different.insert(fused.Bytes("boxes"));
    }
    EXPECT_GT(different.size(), 1u);
  }
}

TEST(DeclaredBoxesTest, KeepNothingFromRunningAsOne) {
  const auto names = [](const std::string& stages) {
    return PipelineUnderTest(MakeSpec(stages + " outputs: ['image', 'boxes']", kDetection),
                             {PictureRecord()})
        .pipeline()
        .StageNames();
  };
  const std::string decode = In("decode_image {}") + In("boxes { format: BOX_FORMAT_XYXY }");
  EXPECT_THAT(names(decode + In("random_resized_crop { size: 32 }") +
                    In("random_horizontal_flip {}") + In("normalize { divide: 2 }")),
              ElementsAre("stages[1] boxes", "stages[0] decode_image"));
  EXPECT_THAT(names(decode + In("random_horizontal_flip {}") + In("resize { size: 32 }")),
              ElementsAre("stages[0] decode_image", "stages[1] boxes", "stages[3] resize"));
  // Boxes of the cut image: what is behind them must not move them by the cut.
  EXPECT_THAT(
      names(In("decode_image {}") + In("random_resized_crop { size: 32 }") +
            In("boxes { format: BOX_FORMAT_XYXY }") + In("random_horizontal_flip {}")),
      ElementsAre("stages[0] decode_image", "stages[2] boxes", "stages[3] random_horizontal_flip"));
}

// A declaration between a decoder and its crop leaves the verdict on damage to the crop.
TEST(DeclaredBoxesTest, StandBetweenADecoderAndItsCrop) {
  const Image picture = MakePicture(200, 80, 3);
  std::string file = EncodeJpeg(picture.view(), {}).value();
  // Damage near the end: the crop of the upper part does not need it.
  file[file.size() - 200] ^= 0x55;
  file[file.size() - 150] ^= 0x55;
  const std::string mask = EncodePng(picture.view()).value();
  for (const bool fuse : {true, false}) {
    const std::string crop = In("center_crop { size: [20, 80] }");
    const std::string outputs = " outputs: ['image', 'boxes']";
    const Made plain(In("decode_image {}") + crop + outputs, Detection(file, mask, {1, 2, 3, 100}),
                     {}, fuse);
    const Made declared(
        In("decode_image {}") + In("boxes { format: BOX_FORMAT_XYXY }") + crop + outputs,
        Detection(file, mask, {1, 2, 3, 100}), {}, fuse);
    ASSERT_TRUE(plain.status().ok()) << plain.status();
    ASSERT_TRUE(declared.status().ok()) << declared.status();
    EXPECT_TRUE(plain.Bytes("image") == declared.Bytes("image"));
    EXPECT_THAT(declared.Box(), ElementsAre(1, 0, 3, 10));
  }
}

}  // namespace
}  // namespace bulkhead::detection_testing
