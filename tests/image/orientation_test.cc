#include "server/image/geometry/orientation.h"

#include <gtest/gtest.h>

#include "server/image/geometry/flip.h"
#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

Image Upright(const ImageView& in, int orientation) {
  Image out;
  CopyUpright(in, orientation, out.Reshape(UprightSize(in.size(), orientation), in.channels));
  return out;
}

// Pictures against Pillow's are in tests/golden; here: parts, and other numbers of channels.
TEST(OrientationTest, PartsOfTheUprightImageComeFromTheirStoredRectangles) {
  for (const int channels : {1, 2, 3, 4, 6}) {
    const Image stored = MakePicture(11, 17, channels);
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const Image whole = Upright(stored.view(), orientation);
      SampleRandom random(orientation, 0, 0, channels);
      for (int i = 0; i < 20; ++i) {
        const ImageSize size = whole.view().size();
        Rect rect;
        rect.top = static_cast<int>(random.NextBelow(size.height));
        rect.left = static_cast<int>(random.NextBelow(size.width));
        rect.height = 1 + static_cast<int>(random.NextBelow(size.height - rect.top));
        rect.width = 1 + static_cast<int>(random.NextBelow(size.width - rect.left));
        const Rect from = StoredRect(rect, stored.view().size(), orientation);
        const Image part = Upright(stored.view().Crop(from), orientation);
        ASSERT_EQ(part.view().size(), (ImageSize{rect.height, rect.width}));
        ASSERT_EQ(PixelsOf(part.view()), PixelsOf(whole.view().Crop(rect))) << orientation;
      }
    }
  }
}

TEST(OrientationTest, MirroredOnesAreFlips) {
  const Image stored = MakePicture(11, 17, 3);
  Image flipped = MakePicture(11, 17, 3);
  ScratchBuffer row;
  FlipHorizontallyInPlace(flipped.mutable_view(), row);
  EXPECT_EQ(PixelsOf(Upright(stored.view(), 2).view()), PixelsOf(flipped.view()));
  FlipVerticallyInPlace(flipped.mutable_view(), row);
  EXPECT_EQ(PixelsOf(Upright(stored.view(), 3).view()), PixelsOf(flipped.view()));
  EXPECT_EQ(PixelsOf(Upright(stored.view(), kStoredUpright).view()), PixelsOf(stored.view()));
  // A quarter turn four times over is none.
  const Image once = Upright(stored.view(), 6);
  EXPECT_EQ(once.view().size(), (ImageSize{17, 11}));
  EXPECT_EQ(PixelsOf(Upright(once.view(), 8).view()), PixelsOf(stored.view()));
}

}  // namespace
}  // namespace bulkhead
