#include "tools/synth/photo.h"

#include <gtest/gtest.h>

#include "server/image/codecs/encode.h"

namespace bulkhead::tools {
namespace {

PhotoRequest Request(uint64_t index) {
  PhotoRequest request;
  request.index = index;
  request.width = 500;
  request.height = 400;
  return request;
}

TEST(PhotoTest, IsAFunctionOfItsRequest) {
  EXPECT_EQ(DrawPhoto(Request(3)).rgb, DrawPhoto(Request(3)).rgb);
  EXPECT_NE(DrawPhoto(Request(3)).rgb, DrawPhoto(Request(4)).rgb);
  PhotoRequest reseeded = Request(3);
  reseeded.seed = 2;
  EXPECT_NE(DrawPhoto(Request(3)).rgb, DrawPhoto(reseeded).rgb);
}

TEST(PhotoTest, BoxesLieInsideAndAreAsManyAsAskedFor) {
  for (uint64_t i = 0; i < 20; ++i) {
    PhotoRequest request = Request(i);
    request.min_boxes = 2;
    request.max_boxes = 5;
    const Photo photo = DrawPhoto(request);
    EXPECT_GE(photo.boxes.size(), 2u);
    EXPECT_LE(photo.boxes.size(), 5u);
    for (const auto& [x0, y0, x1, y1] : photo.boxes) {
      EXPECT_GE(x0, 0);
      EXPECT_LT(x0, x1);
      EXPECT_LE(x1, 500);
      EXPECT_GE(y0, 0);
      EXPECT_LT(y0, y1);
      EXPECT_LE(y1, 400);
    }
  }
}

TEST(PhotoTest, WithoutObjectsThereAreNoBoxes) {
  PhotoRequest request = Request(0);
  request.min_boxes = request.max_boxes = 0;
  EXPECT_TRUE(DrawPhoto(request).boxes.empty());
}

// Benchmarks with synthetic sets mean something only if entropy decoding costs what photos cost.
TEST(PhotoTest, CompressesLikeAPhotograph) {
  double bytes = 0;
  constexpr int kPhotos = 10;
  for (uint64_t i = 0; i < kPhotos; ++i) {
    const Photo photo = DrawPhoto(Request(i));
    const auto jpeg = EncodeJpeg({photo.rgb.data(), 400, 500, 3, 1500}, JpegEncodeOptions());
    ASSERT_TRUE(jpeg.ok());
    bytes += static_cast<double>(jpeg->size());
  }
  // ImageNet: 107 KB for 0.2 MP.
  EXPECT_GT(bytes / kPhotos, 85e3);
  EXPECT_LT(bytes / kPhotos, 130e3);
}

}  // namespace
}  // namespace bulkhead::tools
