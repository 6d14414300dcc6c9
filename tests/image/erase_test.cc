#include "server/image/geometry/erase.h"

#include <gtest/gtest.h>

#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

TEST(RandomEraseRectTest, StaysWithinItsBoundsAndTheImage) {
  const EraseBounds bounds = {0.02, 0.33, 0.3, 3.3};
  double least = 1;
  double most = 0;
  for (uint64_t key = 0; key < 500; ++key) {
    SampleRandom random(1, 2, key, 3);
    const std::optional<Rect> rect = RandomEraseRect({120, 200}, bounds, random);
    ASSERT_TRUE(rect.has_value());
    EXPECT_GE(rect->top, 0);
    EXPECT_GE(rect->left, 0);
    EXPECT_LE(rect->bottom(), 120);
    EXPECT_LE(rect->right(), 200);
    EXPECT_LT(rect->height, 120);
    EXPECT_LT(rect->width, 200);
    const double share = rect->height * rect->width / (120.0 * 200);
    least = std::min(least, share);
    most = std::max(most, share);
    const double ratio = static_cast<double>(rect->height) / rect->width;
    EXPECT_GT(ratio, 0.3 * 0.9);
    EXPECT_LT(ratio, 3.3 * 1.1);
  }
  EXPECT_NEAR(least, 0.02, 0.005);
  EXPECT_NEAR(most, 0.33, 0.01);
}

TEST(RandomEraseRectTest, FindsNoneThatWouldCoverASide) {
  SampleRandom random(1, 2, 3, 4);
  EXPECT_EQ(RandomEraseRect({50, 50}, {1, 1, 1, 1}, random), std::nullopt);
  SampleRandom other(1, 2, 3, 4);
  EXPECT_EQ(RandomEraseRect({1, 1}, {0.9, 1, 1, 1}, other), std::nullopt);
}

// Height 20 and width 5: the ratio is height / width.
TEST(RandomEraseRectTest, DrawsAreInTheDocumentedOrder) {
  SampleRandom random(9, 0, 5, 6);
  const std::optional<Rect> rect = RandomEraseRect({40, 50}, {0.05, 0.05, 4, 4}, random);
  SampleRandom expected(9, 0, 5, 6);
  expected.NextUnit();
  expected.NextUnit();
  const int top = static_cast<int>(expected.NextBelow(40 - 20 + 1));
  const int left = static_cast<int>(expected.NextBelow(50 - 5 + 1));
  EXPECT_EQ(rect, (Rect{top, left, 20, 5}));
  EXPECT_EQ(random.Next64(), expected.Next64());
}

TEST(EraseRectTest, FillsTheRectangleOnly) {
  for (const int channels : {1, 3, 9}) {
    const Image before = MakePicture(12, 15, channels);
    Image image = MakePicture(12, 15, channels);
    const uint8_t fill[] = {250, 251, 252, 253, 254, 255, 249, 248, 247};
    EraseRect({3, 2, 4, 6}, fill, image.mutable_view());
    EraseRect({3, 2, 0, 6}, fill, image.mutable_view());
    EraseRect({12, 15, 0, 0}, fill, image.mutable_view());
    for (int y = 0; y < 12; ++y) {
      for (int x = 0; x < 15; ++x) {
        for (int c = 0; c < channels; ++c) {
          const bool inside = y >= 3 && y < 7 && x >= 2 && x < 8;
          ASSERT_EQ(image.view().row(y)[x * channels + c],
                    inside ? fill[c] : before.view().row(y)[x * channels + c]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace bulkhead
