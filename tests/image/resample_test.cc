#include "server/image/resize/resample.h"

#include <gtest/gtest.h>

#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

Image Resampled(const ImageView& in, ResampleFilter filter, ImageSize size) {
  Image out;
  ResampleScratch scratch;
  ResampleImage(in, filter, out.Reshape(size, in.channels), scratch);
  return out;
}

// Golden comparisons with Pillow are in tests/golden; here: what holds for all sizes.
TEST(ResampleTest, BothPassesAtOnceAreOneAfterTheOther) {
  for (const auto filter : {ResampleFilter::kLinear, ResampleFilter::kCubic}) {
    for (const int channels : {1, 3, 5}) {
      const Image picture = MakePicture(41, 29, channels);
      for (const int height : {1, 2, 13, 40, 41, 90}) {
        for (const int width : {1, 7, 29, 64}) {
          const Image rows = Resampled(picture.view(), filter, {41, width});
          const Image twice = Resampled(rows.view(), filter, {height, width});
          const Image once = Resampled(picture.view(), filter, {height, width});
          ASSERT_EQ(PixelsOf(once.view()), PixelsOf(twice.view())) << height << " " << width;
        }
      }
    }
  }
}

TEST(ResampleTest, ChannelsDoNotMix) {
  const Image picture = MakePicture(31, 37, 4);
  const Image all = Resampled(picture.view(), ResampleFilter::kCubic, {17, 50});
  for (int c = 0; c < 4; ++c) {
    Image plane;
    const MutableImageView view = plane.Reshape({31, 37}, 1);
    for (int y = 0; y < 31; ++y) {
      for (int x = 0; x < 37; ++x) view.row(y)[x] = picture.view().row(y)[4 * x + c];
    }
    const Image one = Resampled(plane.view(), ResampleFilter::kCubic, {17, 50});
    for (int y = 0; y < 17; ++y) {
      for (int x = 0; x < 50; ++x) ASSERT_EQ(all.view().row(y)[4 * x + c], one.view().row(y)[x]);
    }
  }
}

TEST(ResampleTest, FlatImagesStayFlatAndViewsAreRead) {
  Image flat;
  const MutableImageView view = flat.Reshape({50, 60}, 3);
  std::memset(view.data, 255, 50 * 60 * 3);
  for (const auto filter : {ResampleFilter::kLinear, ResampleFilter::kCubic}) {
    const Image shrunk = Resampled(view.Crop({3, 4, 40, 41}), filter, {7, 9});
    EXPECT_EQ(PixelsOf(shrunk.view()), std::string(7 * 9 * 3, '\xff'));
  }
}

TEST(ResampleTest, RowsBetweenThePassesAreFewerThanTheImages) {
  const Image tall = MakePicture(4000, 10, 1);
  Image out;
  ResampleScratch scratch;
  ResampleImage(tall.view(), ResampleFilter::kLinear, out.Reshape({1000, 20}, 1), scratch);
  EXPECT_LE(scratch.rows.view().height, 9);  // a triangle of ±4 rows
}

}  // namespace
}  // namespace bulkhead
