#include "server/image/codecs/encode.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "server/image/codecs/plain_jpeg.h"
#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

TEST(EncodeTest, JpegComesBackNearlyAsItWas) {
  const Image picture = MakePicture(40, 60, 3);
  JpegEncodeOptions options;
  options.quality = 98;
  options.chroma_width_divisor = options.chroma_height_divisor = 1;
  const std::string file = EncodeJpeg(picture.view(), options).value();
  PlainJpegDecoder decoder;
  const std::string decoded = PixelsOf(decoder.Decode(file).value());
  const std::string original = PixelsOf(picture.view());
  ASSERT_EQ(decoded.size(), original.size());
  double error = 0;
  for (size_t i = 0; i < decoded.size(); ++i) {
    error += std::abs(static_cast<uint8_t>(decoded[i]) - static_cast<uint8_t>(original[i]));
  }
  EXPECT_LT(error / decoded.size(), 2.0);
}

TEST(EncodeTest, LowerQualityIsSmaller) {
  const Image picture = MakePicture(400, 300, 3);
  JpegEncodeOptions low;
  low.quality = 30;
  EXPECT_LT(EncodeJpeg(picture.view(), low)->size() * 2,
            EncodeJpeg(picture.view(), JpegEncodeOptions{})->size());
}

TEST(EncodeTest, ImpossibleSizeIsRefused) {
  const ImageView empty{nullptr, 0, 0, 3, 0};
  EXPECT_EQ(EncodeJpeg(empty, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodePng(empty).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace bulkhead
