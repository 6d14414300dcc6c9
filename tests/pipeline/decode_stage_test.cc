// decode_image's options, through pipelines; the decoders themselves are tested in tests/image.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/image/geometry/crop.h"
#include "server/image/geometry/orientation.h"
#include "server/stages/running/registry.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead {
namespace {

// What `stages` make of `file`; "!" and the reason of a sample error.
std::string Make(const std::string& stages, const std::string& file, uint64_t position = 0,
                 bool fuse = true) {
  PipelineUnderTest pipeline(MakeSpec(stages), {MakeRecord(file)}, fuse);
  const Produced produced = pipeline.Produce(0, {3, 1, position});
  if (produced.status.ok()) return pipeline.Output(produced, "image");
  EXPECT_TRUE(IsSampleError(produced.status)) << produced.status;
  return "!" + GetErrorInfo(produced.status)->reason;
}

TEST(DecodeStageTest, CropsOfUprightImagesAreTheSameFusedAndNot) {
  const std::string jpeg = MakeJpeg(60, 90);
  ImageDecoder decoder;
  Image buffer;
  ASSERT_TRUE(decoder.Open(jpeg, 1'000'000).ok());
  const ImageView stored = decoder.Decode(PixelFormat::kRgb, {0, 0, 60, 90}, buffer).value();
  for (int orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    const std::string file = Oriented(jpeg, orientation);
    Image upright;
    CopyUpright(stored, orientation, upright.Reshape(UprightSize({60, 90}, orientation), 3));
    for (uint64_t position = 0; position < 5; ++position) {
      SampleRandom random(3, 1, position, StableHash("stages/1"));
      const Rect rect = RandomPlaceRect(upright.view().size(), {20, 31}, random).value();
      for (const bool fuse : {true, false}) {
        ASSERT_TRUE(Make("stages { decode_image { exif_orientation: true } }"
                         "stages { random_crop { size: [20, 31] } }",
                         file, position, fuse) == PixelsOf(upright.view().Crop(rect)));
      }
    }
    const std::string unturned =
        Make("stages { decode_image {} } stages { center_crop { size: [60, 90] } }", file);
    EXPECT_TRUE(unturned == PixelsOf(stored));
  }
}

TEST(DecodeStageTest, NeededRowsAreThoseOfTheStoredImage) {
  JpegEncodeOptions options;
  options.restart_interval = 5;  // a row of blocks of 16 lines
  std::string damaged = MakeJpeg(80, 80, options);
  const size_t last = damaged.rfind("\xFF\xD3");
  ASSERT_NE(last, std::string::npos);
  damaged.erase(last + 4, damaged.size() - last - 6);  // most of the rows from 64 on
  const std::string corner =
      "stages { decode_image { exif_orientation: true } }"
      "stages { center_crop { size: [80, 20] } } ";  // columns 30 … 49 of the upright image
  for (const bool fuse : {true, false}) {
    // Upright, all rows are needed; on its side those columns are rows 30 … 49.
    EXPECT_TRUE(Make(corner, Oriented(damaged, 1), 0, fuse) == "!CORRUPT_IMAGE");
    EXPECT_NE(Make(corner, Oriented(damaged, 6), 0, fuse)[0], '!');
  }
}

TEST(DecodeStageTest, TruncatedImagesAreTakenByTheirShareOfRows) {
  const std::string file = MakeJpeg(160, 240);
  const std::string cut = file.substr(0, file.size() * 3 / 4);
  const auto stages = [](const std::string& options) {
    return "stages { decode_image { " + options + " } } stages { center_crop { size: 40 } }";
  };
  for (const bool fuse : {true, false}) {
    EXPECT_EQ(Make(stages(""), cut, 0, fuse), "!TRUNCATED_IMAGE");
    EXPECT_EQ(Make(stages("truncated { accept: 0.9 }"), cut, 0, fuse), "!TRUNCATED_IMAGE");
    EXPECT_TRUE(Make(stages("truncated { accept: 0.5 }"), cut, 0, fuse) ==
                Make(stages(""), file, 0, fuse));
  }
}

TEST(DecodeStageTest, JpegOptionsReachTheDecoder) {
  const std::string file = MakeJpeg(80, 120);
  const std::string crop = " } } stages { center_crop { size: [10, 15] } }";
  const std::string plain = Make("stages { decode_image { " + crop, file);
  for (const std::string options :
       {"fancy_upsampling: false", "dct: DCT_METHOD_IFAST", "scale: 8"}) {
    const std::string made = Make("stages { decode_image { " + options + crop, file);
    EXPECT_NE(made[0], '!') << options;
    EXPECT_FALSE(made == plain) << options;
    EXPECT_TRUE(made == Make("stages { decode_image { " + options + crop, file, 0, false))
        << options;
  }
  // An eighth has just the size of the crop.
  EXPECT_EQ(
      Make("stages { decode_image { scale: 8 } } stages { center_crop { size: [11, 15] } }", file),
      "!IMAGE_TOO_SMALL");
}

TEST(DecodeStageTest, SixteenBitImagesAreElementsAndTurned) {
  const Image picture = MakePicture(20, 30, 3);
  const std::string jpeg = Oriented(EncodeJpeg(picture.view(), {}).value(), 6);
  v1::Stage options;
  v1::DecodeImage& spec = *options.mutable_decode_image();
  spec.set_max_pixels(1000);
  spec.set_keep_16_bit(true);
  spec.set_scale(1);
  spec.set_fancy_upsampling(true);
  spec.set_exif_orientation(true);
  const std::vector<FeatureSignature> none;
  const auto stage = MakeStage({options, {"stages[0]", "decode_image"}, none, none});
  ImageDecoder decoder;
  StageScratch scratch;
  std::vector<Value> values(1);
  Value& value = values[0];
  value.data = reinterpret_cast<const std::byte*>(jpeg.data());
  value.size_bytes = jpeg.size();
  ASSERT_TRUE(stage->RunOn({values, {size_t{0}}}, {decoder, scratch, {}, 0, 0, nullptr}).ok());
  EXPECT_EQ(value.dtype, v1::DTYPE_UINT16);
  EXPECT_TRUE(value.is_image);
  EXPECT_EQ(value.image_size, (ImageSize{30, 20}));
  EXPECT_EQ(value.element_count(), 20u * 30 * 3);
  Image decoded;
  ASSERT_TRUE(decoder.Open(jpeg, 1'000'000).ok());
  const ImageView stored = decoder.Decode(PixelFormat::kRgb, {0, 0, 20, 30}, decoded).value();
  std::vector<uint16_t> elements(value.element_count());
  std::memcpy(elements.data(), value.data, value.size_bytes);
  for (int y = 0; y < 30; ++y) {
    for (int x = 0; x < 20; ++x) {
      for (int c = 0; c < 3; ++c) {
        ASSERT_EQ(elements[(y * 20 + x) * 3 + c], stored.row(19 - x)[3 * y + c] * 257);
      }
    }
  }
}

constexpr char kBoundedFeatures[] = R"(
  source { tfrecord { files: "fake.tfrecord" } }
  features { key: "image" value { bytes {} } }
  features { key: "label" value { int64 {} } }
  batch { size: 4 }
)";

TEST(DecodeStageTest, SixteenBitsHaveTheirTypeInTheSignature) {
  v1::PipelineSpec spec =
      MakeSpec("stages { decode_image { keep_16_bit: true } } outputs: 'label'", kBoundedFeatures);
  const auto signature = InferSignature(spec);
  ASSERT_TRUE(signature.ok()) << signature.status();
  for (const FeatureSignature& feature : signature->sources[0].FeaturesBefore(1)) {
    if (feature.name != "image") continue;
    EXPECT_EQ(feature.dtype, v1::DTYPE_UINT16);
    EXPECT_THAT(feature.shape, testing::ElementsAre(-1, -1, 3));
  }
}

}  // namespace
}  // namespace bulkhead
