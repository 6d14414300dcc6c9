#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/image/geometry/crop.h"
#include "server/image/geometry/flip.h"
#include "server/image/geometry/pad.h"
#include "server/image/resize/legacy_resize.h"
#include "server/image/resize/resample.h"
#include "server/image/resize/resize.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead {
namespace {

constexpr int kHeight = 30;
constexpr int kWidth = 44;

// What `stages`, behind a decoder, make of a picture; "!" and the reason of a sample error.
std::string Make(const std::string& stages, uint64_t position = 0, int height = kHeight,
                 int width = kWidth, bool fuse = true) {
  const std::string file = EncodePng(MakePicture(height, width, 3).view()).value();
  PipelineUnderTest pipeline(MakeSpec("stages { decode_image {} } " + stages), {MakeRecord(file)},
                             fuse);
  const Produced produced = pipeline.Produce(0, {3, 1, position});
  if (produced.status.ok()) return pipeline.Output(produced, "image");
  EXPECT_TRUE(IsSampleError(produced.status)) << produced.status;
  const auto info = GetErrorInfo(produced.status);
  return "!" + info->reason + " " + info->metadata.at("stage");
}

std::string ResizedTo(ImageSize size, int height = kHeight, int width = kWidth) {
  const Image picture = MakePicture(height, width, 3);
  Image out;
  EXPECT_TRUE(ResizeImage(picture.view(), ResizeMethod::kLinear, out.Reshape(size, 3)).ok());
  return PixelsOf(out.view());
}

TEST(ResizeStageTest, ComputedSizesAreThoseOfTheRule) {
  // A crop of the whole computed size makes it a size that a batch can have.
  const std::vector<std::pair<std::string, ImageSize>> cases = {
      {"shorter_side: 20", {20, 29}},
      {"shorter_side: 20 rounding: ROUNDING_ROUND", {20, 29}},
      {"shorter_side: 25 max_size: 30", {20, 30}},
      {"longer_side: 20", {13, 20}},
      {"longer_side: 20 rounding: ROUNDING_ROUND", {14, 20}},
      {"factor: 0.35", {10, 15}},
      {"factor: 0.35 rounding: ROUNDING_ROUND", {11, 15}},
  };
  for (const auto& [options, size] : cases) {
    SCOPED_TRACE(options);
    const std::string crop =
        absl::StrCat("stages { center_crop { size: [", size.height, ", ", size.width, "] } }");
    EXPECT_TRUE(Make("stages { resize { " + options + " } } " + crop) == ResizedTo(size));
    // And not larger than that.
    const std::string larger =
        absl::StrCat("stages { center_crop { size: [", size.height, ", ", size.width + 1, "] } }");
    EXPECT_EQ(Make("stages { resize { " + options + " } } " + larger),
              "!IMAGE_TOO_SMALL stages[2] center_crop");
  }
}

TEST(ResizeStageTest, TooLargeAResultIsASampleError) {
  EXPECT_EQ(Make("stages { resize { factor: 500 } } stages { center_crop { size: 8 } }"),
            "!IMAGE_TOO_LARGE stages[1] resize");
}

TEST(ResizeStageTest, AntialiasAndCentersChooseTheirKernels) {
  const Image picture = MakePicture(kHeight, kWidth, 3);
  ResampleScratch resample;
  ScratchBuffer columns;
  Image out;
  const MutableImageView view = out.Reshape({11, 17}, 3);
  const std::string resize = "stages { resize { size: [11, 17] ";
  ResampleImage(picture.view(), ResampleFilter::kLinear, view, resample);
  EXPECT_TRUE(Make(resize + "antialias: true } }") == PixelsOf(view));
  ResampleImage(picture.view(), ResampleFilter::kCubic, view, resample);
  EXPECT_TRUE(Make(resize + "antialias: true interpolation: INTERPOLATION_CUBIC } }") ==
              PixelsOf(view));
  LegacyResizeLinear(picture.view(), LegacyCenters::kCorner, view, columns);
  EXPECT_TRUE(Make(resize + "centers: PIXEL_CENTERS_CORNER } }") == PixelsOf(view));
  LegacyResizeLinear(picture.view(), LegacyCenters::kAligned, view, columns);
  EXPECT_TRUE(Make(resize + "centers: PIXEL_CENTERS_ALIGNED } }") == PixelsOf(view));
  LegacyResizeNearest(picture.view(), LegacyCenters::kAligned, view, columns);
  EXPECT_TRUE(Make(resize + "centers: PIXEL_CENTERS_ALIGNED interpolation: INTERPOLATION_NEAREST }"
                            " }") == PixelsOf(view));
  EXPECT_TRUE(Make(resize + "centers: PIXEL_CENTERS_HALF_PIXEL } }") == ResizedTo({11, 17}));
}

TEST(RandomResizedCropStageTest, AntialiasSmoothsTheSameRectangle) {
  const Image picture = MakePicture(kHeight, kWidth, 3);
  ResampleScratch resample;
  Image out;
  const MutableImageView view = out.Reshape({11, 17}, 3);
  const std::string crop = "stages { random_resized_crop { size: [11, 17] ";
  std::set<std::string> different;
  for (uint64_t position = 0; position < 20; ++position) {
    SampleRandom random(3, 1, position, StableHash("stages/1"));
    const Rect rect = RandomCropRect({kHeight, kWidth}, {0.08, 1, 0.75, 4.0 / 3}, random);
    for (const bool fuse : {true, false}) {
      ResampleImage(picture.view().Crop(rect), ResampleFilter::kLinear, view, resample);
      const std::string linear =
          Make(crop + "antialias: true } }", position, kHeight, kWidth, fuse);
      ASSERT_TRUE(linear == PixelsOf(view)) << position;
      ResampleImage(picture.view().Crop(rect), ResampleFilter::kCubic, view, resample);
      ASSERT_TRUE(Make(crop + "antialias: true interpolation: INTERPOLATION_CUBIC } }", position,
                       kHeight, kWidth, fuse) == PixelsOf(view))
          << position;
      different.insert(linear);
    }
  }
  EXPECT_GT(different.size(), 15u);
}

TEST(FlipStageTest, VerticalFlipsMirrorRowsWithTheirProbability) {
  const Image picture = MakePicture(kHeight, kWidth, 3);
  Image flipped = MakePicture(kHeight, kWidth, 3);
  ScratchBuffer row;
  FlipVerticallyInPlace(flipped.mutable_view(), row);
  const std::string whole = absl::StrCat("stages { resize { size: [", kHeight, ", ", kWidth,
                                         "] } } stages { random_vertical_flip { ");
  EXPECT_TRUE(Make(whole + "probability: 1 } }") == PixelsOf(flipped.view()));
  EXPECT_TRUE(Make(whole + "probability: 0 } }") == PixelsOf(picture.view()));
  int times = 0;
  for (uint64_t position = 0; position < 40; ++position) {
    SampleRandom random(3, 1, position, StableHash("stages/2"));
    const bool flips = random.NextUnit() < 0.5;
    times += flips;
    ASSERT_TRUE(Make(whole + "} }", position) == PixelsOf((flips ? flipped : picture).view()));
  }
  EXPECT_GT(times, 8);
  EXPECT_LT(times, 32);
}

TEST(RandomCropStageTest, CutsAtTheDrawnPlaceFusedAndNot) {
  const Image picture = MakePicture(kHeight, kWidth, 3);
  for (uint64_t position = 0; position < 20; ++position) {
    SampleRandom random(3, 1, position, StableHash("stages/1"));
    const Rect rect = RandomPlaceRect({kHeight, kWidth}, {12, 40}, random).value();
    const std::string expected = PixelsOf(picture.view().Crop(rect));
    for (const bool fuse : {true, false}) {
      ASSERT_TRUE(Make("stages { random_crop { size: [12, 40] } }", position, kHeight, kWidth,
                       fuse) == expected);
    }
  }
  EXPECT_EQ(Make("stages { random_crop { size: 31 } }"), "!IMAGE_TOO_SMALL stages[1] random_crop");
}

TEST(RandomCropStageTest, WithPaddingIsACropOfThePaddedImage) {
  const Image picture = MakePicture(kHeight, kWidth, 3);
  Image padded;
  const MutableImageView view = padded.Reshape({kHeight + 7, kWidth + 3}, 3);
  PlaceImage(picture.view(), 4, 1, {5, 6, 7}, view);
  std::set<std::string> different;
  for (uint64_t position = 0; position < 20; ++position) {
    SampleRandom random(3, 1, position, StableHash("stages/1"));
    const Rect rect = RandomPlaceRect(view.size(), {30, 44}, random).value();
    const std::string made =
        Make("stages { random_crop { size: [30, 44] padding: [4, 3, 1, 2] fill: [5, 6, 7] } }",
             position);
    ASSERT_TRUE(made == PixelsOf(view.Crop(rect)));
    different.insert(made);
  }
  EXPECT_GT(different.size(), 8u);
  EXPECT_EQ(Make("stages { random_crop { size: [33, 44] padding: 1 } }"),
            "!IMAGE_TOO_SMALL stages[1] random_crop");
}

TEST(PadStageTest, AddsToTheSidesOrToASize) {
  const Image picture = MakePicture(kHeight, kWidth, 3);
  Image padded;
  MutableImageView view = padded.Reshape({kHeight + 3, kWidth + 7}, 3);
  PlaceImage(picture.view(), 1, 3, {9}, view);
  EXPECT_TRUE(Make(absl::StrCat("stages { pad { padding: [1, 2, 3, 4] fill: 9 } }"
                                "stages { center_crop { size: [",
                                kHeight + 3, ", ", kWidth + 7, "] } }")) == PixelsOf(view));
  view = padded.Reshape({64, 80}, 3);
  PlaceImage(picture.view(), 0, 0, {1, 2, 3}, view);
  EXPECT_TRUE(Make("stages { pad { size: [64, 80] fill: [1, 2, 3] } }") == PixelsOf(view));
  EXPECT_EQ(Make("stages { pad { size: [64, 43] } }"), "!IMAGE_TOO_LARGE stages[1] pad");
  EXPECT_EQ(Make("stages { pad { padding: 9000 } } stages { center_crop { size: 8 } }"),
            "!IMAGE_TOO_LARGE stages[1] pad");
}

TEST(LetterboxStageTest, CentersTheResizedImage) {
  // 30 x 44 into 64 x 64: 44 rows (43.6), ten above, ten below.
  Image expected;
  MutableImageView view = expected.Reshape({64, 64}, 3);
  const Image picture = MakePicture(kHeight, kWidth, 3);
  Image inner;
  ASSERT_TRUE(ResizeImage(picture.view(), ResizeMethod::kArea, inner.Reshape({44, 64}, 3)).ok());
  PlaceImage(inner.view(), 10, 0, {114}, view);
  EXPECT_TRUE(Make("stages { letterbox { size: 64 interpolation: INTERPOLATION_AREA } }") ==
              PixelsOf(view));
  // An odd rest goes to the right: 30 x 44 into 15 x 31 leaves 9 columns, four of them left.
  view = expected.Reshape({15, 31}, 3);
  ASSERT_TRUE(ResizeImage(picture.view(), ResizeMethod::kLinear, inner.Reshape({15, 22}, 3)).ok());
  PlaceImage(inner.view(), 0, 4, {1, 2, 3}, view);
  EXPECT_TRUE(Make("stages { letterbox { size: [15, 31] fill: [1, 2, 3] } }") == PixelsOf(view));
  // By our own resize, which leaves one half to OpenCV: 59 columns (58.7), two left, three right.
  view = expected.Reshape({40, 64}, 3);
  ASSERT_TRUE(ResizeImage(picture.view(), ResizeMethod::kLinear, inner.Reshape({40, 59}, 3)).ok());
  PlaceImage(inner.view(), 0, 2, {9}, view);
  EXPECT_TRUE(Make("stages { letterbox { size: [40, 64] fill: 9 } }") == PixelsOf(view));
}

constexpr char kFrames[] = R"(
  source { tfrecord { files: "fake.tfrecord" } }
  features { key: "a" value { bytes {} } }
  features { key: "b" value { bytes {} } }
  features { key: "c" value { bytes {} } }
  batch { size: 4 }
  stages { decode_image { input: "a" } }
  stages { decode_image { input: "b" color: COLOR_GRAY } }
  stages { decode_image { input: "c" } }
)";

FakeRecord Frames(const std::vector<ImageSize>& sizes) {
  FakeRecord record;
  const std::vector<std::string> names = {"a", "b", "c"};
  for (size_t i = 0; i < names.size(); ++i) {
    const Image picture = MakePicture(sizes[i].height, sizes[i].width, i == 1 ? 1 : 3, i);
    record.features[names[i]] = {EncodePng(picture.view()).value()};
  }
  return record;
}

TEST(ConcatStageTest, JoinsImagesInTheOrderOfItsInputs) {
  for (const std::string output : {"image", "b"}) {
    const v1::PipelineSpec spec =
        MakeSpec(absl::StrCat("stages { concat { inputs: ['c', 'b', 'a'] output: '", output,
                              "' } } stages { random_horizontal_flip { input: '", output,
                              "' probability: 1 } } stages { center_crop { input: '", output,
                              "' size: [10, 12] } }"),
                 kFrames);
    PipelineUnderTest pipeline(
        spec, {Frames({{10, 12}, {10, 12}, {10, 12}}), Frames({{10, 12}, {10, 12}, {12, 10}})});
    const Produced produced = pipeline.Produce(0, {});
    ASSERT_TRUE(produced.status.ok()) << produced.status;
    const std::string image = pipeline.Output(produced, output);
    ASSERT_EQ(image.size(), 10u * 12 * 7);
    const Image a = MakePicture(10, 12, 3, 0);
    const Image b = MakePicture(10, 12, 1, 1);
    const Image c = MakePicture(10, 12, 3, 2);
    for (int y = 0; y < 10; ++y) {
      for (int x = 0; x < 12; ++x) {
        const int from = 11 - x;
        const std::string expected =
            std::string(reinterpret_cast<const char*>(c.view().row(y)) + 3 * from, 3) +
            std::string(reinterpret_cast<const char*>(b.view().row(y)) + from, 1) +
            std::string(reinterpret_cast<const char*>(a.view().row(y)) + 3 * from, 3);
        ASSERT_EQ(image.substr((y * 12 + x) * 7, 7), expected) << y << " " << x;
      }
    }
    const Produced refused = pipeline.Produce(1, {});
    EXPECT_TRUE(IsSampleError(refused.status));
    EXPECT_EQ(GetErrorInfo(refused.status)->reason, reason::kImageSizesDiffer);
    EXPECT_EQ(GetErrorInfo(refused.status)->metadata.at("stage"), "stages[3] concat");
  }
}

TEST(ConcatStageTest, ManyChannelsGoThroughWhatFollows) {
  PipelineUnderTest pipeline(
      MakeSpec("stages { concat { inputs: ['a', 'c', 'b'] output: 'image' } }"
               "stages { resize { size: [9, 8] } }"
               "stages { pad { size: [10, 12] fill: [1, 2, 3, 4, 5, 6, 7] } }"
               "stages { normalize { divide: 255 } } stages { layout { to: IMAGE_LAYOUT_NCHW } }",
               kFrames),
      {Frames({{10, 12}, {10, 12}, {10, 12}})});
  const Produced produced = pipeline.Produce(0, {});
  ASSERT_TRUE(produced.status.ok()) << produced.status;
  ASSERT_EQ(pipeline.schema().tensors_size(), 1);
  EXPECT_THAT(pipeline.schema().tensors(0).shape(), testing::ElementsAre(7, 10, 12));
  const std::string image = pipeline.Output(produced, "image");
  float last = 0;
  std::memcpy(&last, image.data() + image.size() - sizeof(float), sizeof(float));
  EXPECT_EQ(last, 7.0f / 255);
}

}  // namespace
}  // namespace bulkhead
