#include "server/image/geometry/pad.h"

#include <gtest/gtest.h>

#include "server/image/geometry/concat.h"
#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

TEST(PlaceImageTest, IsTheImageWhereItIsAndTheFillElsewhere) {
  for (const int channels : {1, 3}) {
    const Image picture = MakePicture(5, 7, channels);
    const PixelFill fill = channels == 1 ? PixelFill{200} : PixelFill{200, 201, 202};
    for (int top = -7; top <= 12; ++top) {
      for (int left = -9; left <= 12; ++left) {
        Image placed;
        // A margin shows writes outside.
        const MutableImageView around = placed.Reshape({12, 13}, channels);
        std::memset(around.data, 7, around.row_bytes() * 12);
        const MutableImageView out = around.Crop({1, 1, 10, 11});
        PlaceImage(picture.view(), top, left, fill, out);
        for (int y = -1; y < 11; ++y) {
          for (int x = -1; x < 12; ++x) {
            for (int c = 0; c < channels; ++c) {
              const bool outside = y < 0 || y >= 10 || x < 0 || x >= 11;
              const bool inside = y >= top && y < top + 5 && x >= left && x < left + 7;
              const int expected = outside  ? 7
                                   : inside ? picture.view().row(y - top)[(x - left) * channels + c]
                                            : fill[c];
              ASSERT_EQ(around.row(y + 1)[(x + 1) * channels + c], expected)
                  << top << " " << left << " " << y << " " << x;
            }
          }
        }
      }
    }
  }
}

TEST(PlaceImageTest, OneFillIsForAllChannels) {
  const Image picture = MakePicture(1, 1, 3);
  Image placed;
  PlaceImage(picture.view(), 0, 1, {9}, placed.Reshape({1, 2}, 3));
  EXPECT_EQ(PixelsOf(placed.view()).substr(0, 3), "\t\t\t");
  EXPECT_EQ(PixelsOf(placed.view()).substr(3), PixelsOf(picture.view()));
}

TEST(CopyIntoChannelsTest, PutsImagesBehindEachOther) {
  const Image one = MakePicture(4, 5, 3, 1);
  const Image two = MakePicture(4, 5, 1, 2);
  Image joined;
  const MutableImageView out = joined.Reshape({4, 5}, 4);
  CopyIntoChannels(one.view(), 0, out);
  CopyIntoChannels(two.view(), 3, out);
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 5; ++x) {
      for (int c = 0; c < 3; ++c) ASSERT_EQ(out.row(y)[4 * x + c], one.view().row(y)[3 * x + c]);
      ASSERT_EQ(out.row(y)[4 * x + 3], two.view().row(y)[x]);
    }
  }
}

}  // namespace
}  // namespace bulkhead
