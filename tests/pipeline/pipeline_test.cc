#include "server/pipeline/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/image/codecs/image_decoder.h"
#include "server/image/color/normalize.h"
#include "server/image/geometry/crop.h"
#include "server/image/geometry/flip.h"
#include "server/image/resize/resize.h"
#include "server/stages/running/value.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead {
namespace {

using testing::HasSubstr;

constexpr char kTrainStages[] = R"(
  stages { decode_image {} }
  stages { random_resized_crop { size: [24, 32] } }
  stages { random_horizontal_flip {} }
)";
constexpr char kNormalizeStages[] = R"(
  stages { normalize { mean: [123.675, 116.28, 103.53] std: [58.395, 57.12, 57.375] } }
  stages { layout { to: IMAGE_LAYOUT_NCHW } }
)";

// The same sample by the kernels alone, without any planning.
Image TrainImageByHand(const std::string& file, const SampleKey& key) {
  ImageDecoder decoder;
  Image decoded;
  const ImageSize size = decoder.Open(file, 32'000'000).value();
  const ImageView whole = decoder.Decode(PixelFormat::kRgb, WholeImage(size), decoded).value();
  SampleRandom crop(key.seed, key.epoch, key.position, StableHash("stages/1"));
  const Rect rect = RandomCropRect(size, {0.08, 1, 0.75, 4.0 / 3}, crop);
  Image resized;
  EXPECT_TRUE(
      ResizeImage(whole.Crop(rect), ResizeMethod::kLinear, resized.Reshape({24, 32}, 3)).ok());
  SampleRandom flip(key.seed, key.epoch, key.position, StableHash("stages/2"));
  if (flip.NextUnit() >= 0.5) return resized;
  ScratchBuffer row;
  FlipHorizontallyInPlace(resized.mutable_view(), row, Simd::kScalar);
  return resized;
}

TEST(PipelineTest, ProducesWhatTheStagesSayForEveryKey) {
  const std::string file = MakeJpeg(120, 160);
  PipelineUnderTest pixels(MakeSpec(kTrainStages), {MakeRecord(file)});
  PipelineUnderTest planes(MakeSpec(std::string(kTrainStages) + kNormalizeStages),
                           {MakeRecord(file)});
  const Normalizer normalizer(Normalizer::Formula::kMeanStd,
                              {{123.675f, 58.395f}, {116.28f, 57.12f}, {103.53f, 57.375f}});
  for (uint64_t position = 0; position < 40; ++position) {
    const SampleKey key{7, position % 3, position};
    const Image expected = TrainImageByHand(file, key);
    const Produced produced = pixels.Produce(0, key);
    ASSERT_TRUE(produced.status.ok()) << produced.status;
    ASSERT_TRUE(pixels.Output(produced, "image") == PixelsOf(expected.view()));
    std::vector<float> floats(24 * 32 * 3);
    normalizer.ApplyToImage(expected.view(), true, floats.data(), Simd::kScalar);
    ASSERT_TRUE(planes.Output(planes.Produce(0, key), "image") == BytesOf(floats));
  }
}

TEST(PipelineTest, OtherFeaturesArePassedOnPaddedAndCounted) {
  PipelineUnderTest pipeline(MakeSpec(kTrainStages), {MakeRecord(MakeJpeg(40, 40))});
  const Produced produced = pipeline.Produce(0, {});
  ASSERT_TRUE(produced.status.ok()) << produced.status;
  EXPECT_EQ(pipeline.Output(produced, "boxes"),
            BytesOf<float>({1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0}));
  EXPECT_EQ(pipeline.Output(produced, "boxes_count"), BytesOf<int64_t>({2}));
  EXPECT_EQ(pipeline.Output(produced, "label"), BytesOf<int64_t>({2}));
  EXPECT_EQ(pipeline.Output(produced, "text"), std::string("hello\0\0\0", 8));
}

TEST(PipelineTest, NumbersAreNormalizedAndCastWithTheirPadding) {
  PipelineUnderTest pipeline(MakeSpec(R"(
    stages { normalize { input: "boxes" divide: [1, 2, 4, 8] subtract: 1 } }
    stages { cast { input: "boxes" dtype: DTYPE_INT32 } }
    stages { cast { input: "label" dtype: DTYPE_FLOAT16 } }
    outputs: ["label", "boxes"]
  )"),
                             {MakeRecord("")});
  const Produced produced = pipeline.Produce(0, {});
  ASSERT_TRUE(produced.status.ok()) << produced.status;
  EXPECT_EQ(pipeline.Output(produced, "boxes"),
            BytesOf<int32_t>({0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(pipeline.Output(produced, "label"), BytesOf<uint16_t>({0x4000}));
}

TEST(PipelineTest, OneHotIsAFloatVector) {
  PipelineUnderTest pipeline(MakeSpec(R"(stages { one_hot { classes: 4 } } outputs: "label")"),
                             {MakeRecord(""), MakeRecord("", 4)});
  EXPECT_EQ(pipeline.Output(pipeline.Produce(0, {}), "label"), BytesOf<float>({0, 0, 1, 0}));
  const Produced refused = pipeline.Produce(1, {0, 0, 9});
  EXPECT_TRUE(IsSampleError(refused.status));
  const auto info = GetErrorInfo(refused.status);
  EXPECT_EQ(info->reason, reason::kLabelOutOfRange);
  EXPECT_EQ(info->metadata.at("stage"), "stages[0] one_hot");
}

// Chains of stages that between them hold every kind at every place the signatures allow. The
// bytes written must be exactly those of the schema (the fixture's canaries and WriteOutput's own
// check) and equal with and without fusion.
TEST(PipelineTest, EverySignatureIsWhatItsStageWrites) {
  const std::vector<std::string> heads = {
      "stages { decode_image {} } ",
      "stages { decode_image { color: COLOR_GRAY } } ",
      "stages { decode_image { color: COLOR_RGBA } } ",
      "stages { decode_image { color: COLOR_BGR } } ",
  };
  const std::vector<std::string> geometries = {
      "stages { resize { size: [20, 30] } } ",
      "stages { center_crop { size: [20, 30] } } ",
      "stages { random_resized_crop { size: [20, 30] interpolation: INTERPOLATION_AREA } } ",
      "stages { resize { size: 40 interpolation: INTERPOLATION_CUBIC } }"
      "stages { center_crop { size: [20, 30] } } ",
      "stages { center_crop { size: 40 } } stages { random_resized_crop { size: [20, 30] } } ",
      "stages { resize { size: 40 } } stages { random_horizontal_flip { probability: 1 } }"
      "stages { resize { size: [20, 30] interpolation: INTERPOLATION_NEAREST } } ",
      "stages { random_crop { size: [20, 30] } } ",
      "stages { random_crop { size: [62, 71] padding: 4 } }"
      "stages { resize { size: [20, 30] antialias: true } } ",
      "stages { resize { shorter_side: 25 } } stages { random_vertical_flip { probability: 1 } }"
      "stages { random_crop { size: [20, 30] padding: [0, 0, 1, 0] } } ",
      "stages { resize { factor: 0.3 } } stages { pad { size: [20, 30] } } ",
      "stages { letterbox { size: [20, 30] } } ",
  };
  const std::vector<std::string> tails = {
      "",
      "stages { random_horizontal_flip { probability: 1 } } ",
      "stages { layout { to: IMAGE_LAYOUT_NCHW } } ",
      "stages { layout { to: IMAGE_LAYOUT_NHWC } } ",
      "stages { normalize { divide: 127.5 subtract: 1 } } ",
      "stages { normalize { divide: 127.5 subtract: 1 } }"
      "stages { layout { to: IMAGE_LAYOUT_NCHW } } ",
      "stages { layout { to: IMAGE_LAYOUT_NCHW } }"
      "stages { normalize { divide: 127.5 subtract: 1 } } ",
      "stages { cast { dtype: DTYPE_FLOAT16 } } stages { layout { to: IMAGE_LAYOUT_NCHW } }"
      "stages { cast { dtype: DTYPE_FLOAT64 } } stages { layout { to: IMAGE_LAYOUT_NHWC } } ",
      "stages { normalize { mean: 3 std: 2 } } stages { cast { dtype: DTYPE_UINT8 } }"
      "stages { random_horizontal_flip { probability: 1 } } ",
      "stages { cast { dtype: DTYPE_UINT8 } } ",
      "stages { layout { to: IMAGE_LAYOUT_NCHW } } stages { cast { dtype: DTYPE_INT64 } } ",
      "stages { layout { to: IMAGE_LAYOUT_NCHW } } stages { layout { to: IMAGE_LAYOUT_NHWC } }"
      "stages { random_horizontal_flip { probability: 1 } } ",
  };
  const std::string file = MakeJpeg(60, 70);
  for (const std::string& head : heads) {
    for (const std::string& geometry : geometries) {
      for (const std::string& tail : tails) {
        const std::string stages = head + geometry + tail;
        SCOPED_TRACE(stages);
        const v1::PipelineSpec spec = MakeSpec(stages);
        PipelineUnderTest fused(spec, {MakeRecord(file)});
        PipelineUnderTest plain(spec, {MakeRecord(file)}, /*fuse=*/false);
        for (uint64_t position = 0; position < 3; ++position) {
          const Produced one = fused.Produce(0, {1, 2, position});
          const Produced two = plain.Produce(0, {1, 2, position});
          ASSERT_TRUE(one.status.ok()) << one.status;
          ASSERT_TRUE(two.status.ok()) << two.status;
          ASSERT_TRUE(one.outputs == two.outputs);
          const std::string image = fused.Output(one, "image");
          ASSERT_NE(image, std::string(image.size(), '\xA5'));
        }
      }
    }
  }
}

TEST(PipelineTest, LayoutsAndCastsThereAndBackChangeNothing) {
  const std::string file = MakeJpeg(60, 70);
  PipelineUnderTest plain(MakeSpec("stages { decode_image {} } stages { resize { size: 20 } }"),
                          {MakeRecord(file)});
  PipelineUnderTest around(MakeSpec(R"(
    stages { decode_image {} } stages { resize { size: 20 } }
    stages { layout { to: IMAGE_LAYOUT_NCHW } } stages { cast { dtype: DTYPE_BFLOAT16 } }
    stages { cast { dtype: DTYPE_FLOAT32 } } stages { layout { to: IMAGE_LAYOUT_NHWC } }
    stages { cast { dtype: DTYPE_UINT8 } })"),
                           {MakeRecord(file)});
  EXPECT_TRUE(plain.Output(plain.Produce(0, {}), "image") ==
              around.Output(around.Produce(0, {}), "image"));
}

TEST(PipelineTest, SampleErrorNamesRecordStageAndPosition) {
  PipelineUnderTest pipeline(MakeSpec(kTrainStages),
                             {MakeRecord(MakeJpeg(40, 40)), MakeRecord("not an image")});
  const Produced produced = pipeline.Produce(1, {0, 0, 17});
  EXPECT_TRUE(IsSampleError(produced.status));
  EXPECT_THAT(std::string(produced.status.message()),
              HasSubstr("position 17: fake.tfrecord@100: stages[0] decode_image: "));
  const auto info = GetErrorInfo(produced.status);
  EXPECT_EQ(info->reason, reason::kUnsupportedImage);
  EXPECT_EQ(info->metadata.at("stage"), "stages[0] decode_image");
  EXPECT_EQ(info->metadata.at("file"), "fake.tfrecord");
  EXPECT_EQ(info->metadata.at("offset"), "100");
  EXPECT_EQ(info->metadata.at("position"), "17");
}

TEST(PipelineTest, ReadErrorKeepsItsKindAndGainsThePosition) {
  FakeRecord gone;
  gone.error = MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound, "x.jpg is gone");
  PipelineUnderTest pipeline(MakeSpec(kTrainStages), {gone});
  const Produced produced = pipeline.Produce(0, {0, 0, 3});
  EXPECT_FALSE(IsSampleError(produced.status));
  EXPECT_EQ(produced.status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(GetErrorInfo(produced.status)->metadata.at("position"), "3");
}

TEST(PipelineTest, DamageComesBeforeTheComplaintOfACropThatDoesNotFit) {
  const v1::PipelineSpec spec =
      MakeSpec("stages { decode_image {} } stages { center_crop { size: 50 } }");
  JpegEncodeOptions options;
  options.restart_interval = 3;
  std::string damaged = MakeJpeg(48, 48, options);
  const size_t first_restart = damaged.find("\xFF\xD0");
  damaged.erase(first_restart - 20, 20);
  const std::vector<FakeRecord> records = {MakeRecord(MakeJpeg(48, 48)), MakeRecord(damaged)};
  for (const bool fuse : {true, false}) {
    PipelineUnderTest pipeline(spec, records, fuse);
    const auto small = GetErrorInfo(pipeline.Produce(0, {}).status);
    EXPECT_EQ(small->reason, reason::kImageTooSmall);
    EXPECT_EQ(small->metadata.at("stage"), "stages[1] center_crop");
    EXPECT_EQ(GetErrorInfo(pipeline.Produce(1, {}).status)->reason, reason::kCorruptImage);
  }
}

TEST(PipelineTest, ASampleGivesItsDecodeShareBack) {
  const v1::PipelineSpec spec =
      MakeSpec("stages { decode_image {} } stages { resize { size: 32 } }");
  PipelineUnderTest pipeline(spec, {MakeRecord(MakeJpeg(80, 80)), MakeRecord("no image")});
  DecodeAllowance allowance(80 * 80 * 3, 1);
  pipeline.context().decode_share.SetAllowance(&allowance);
  ASSERT_TRUE(pipeline.Produce(0, {1, 0, 0}).status.ok());
  EXPECT_FALSE(pipeline.context().decode_share.GiveBack());
  EXPECT_FALSE(pipeline.Produce(1, {1, 0, 1}).status.ok());
  EXPECT_FALSE(pipeline.context().decode_share.GiveBack());
  // And decodes the same again, with new buffers.
  const Produced again = pipeline.Produce(0, {1, 0, 0});
  ASSERT_TRUE(again.status.ok());
  PipelineUnderTest free(spec, {MakeRecord(MakeJpeg(80, 80))});
  EXPECT_EQ(pipeline.Output(again, "image"), free.Output(free.Produce(0, {1, 0, 0}), "image"));
}

}  // namespace
}  // namespace bulkhead
