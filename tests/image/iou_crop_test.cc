#include "server/image/boxes/iou_crop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace bulkhead {
namespace {

constexpr ImageSize kImageSize{300, 400};
const std::vector<Box> kBoxes = {{30, 40, 130, 160}, {200, 100, 390, 290}, {5, 250, 25, 299}};

double BestOverlap(const Rect& rect) {
  const Box crop = {static_cast<double>(rect.left), static_cast<double>(rect.top),
                    static_cast<double>(rect.right()), static_cast<double>(rect.bottom())};
  double best = -1;
  for (const Box& box : kBoxes) {
    if (HasMiddleIn(box, rect)) best = std::max(best, Overlap(box, crop));
  }
  return best;
}

TEST(RandomIouRectTest, HoldsItsBounds) {
  IouCropBounds bounds;
  for (const double least : {0.0, 0.1, 0.3, 0.5, 0.7}) {
    bounds.min_overlaps = {least};
    int found = 0;
    for (uint64_t position = 0; position < 300; ++position) {
      SampleRandom random(1, 2, position, 3);
      const auto rect = RandomIouRect(kImageSize, kBoxes, bounds, random);
      if (!rect.has_value()) continue;
      ++found;
      EXPECT_GE(rect->top, 0);
      EXPECT_GE(rect->left, 0);
      EXPECT_LE(rect->bottom(), kImageSize.height);
      EXPECT_LE(rect->right(), kImageSize.width);
      EXPECT_GE(rect->width, 0.3 * kImageSize.width - 1);
      EXPECT_GE(rect->height, 0.3 * kImageSize.height - 1);
      const double ratio = static_cast<double>(rect->width) / rect->height;
      EXPECT_GE(ratio, 0.5);
      EXPECT_LE(ratio, 2);
      EXPECT_GE(BestOverlap(*rect), least);
    }
    EXPECT_GT(found, 200) << least;
  }
}

TEST(RandomIouRectTest, OneAndAboveLeaveTheImage) {
  IouCropBounds bounds;
  int whole = 0;
  constexpr int kTimes = 1400;
  for (uint64_t position = 0; position < kTimes; ++position) {
    SampleRandom random(1, 2, position, 3);
    whole += !RandomIouRect(kImageSize, kBoxes, bounds, random).has_value();
  }
  // One of seven options at least, and every time that the others found nothing in 40 trials, with
  // some of the next draws: far from half.
  EXPECT_GT(whole, kTimes / 10);
  EXPECT_LT(whole, kTimes / 2);
  bounds.min_overlaps = {1.5};
  SampleRandom random(1, 2, 3, 4);
  EXPECT_FALSE(RandomIouRect(kImageSize, kBoxes, bounds, random).has_value());
}

TEST(RandomIouRectTest, EndsWhereNothingFitsAndDrawsNothingWithoutBoxes) {
  IouCropBounds bounds;
  bounds.min_overlaps = {0.99};
  bounds.scale_high = 0.31;  // no crop of that size overlaps the large box so well
  SampleRandom random(1, 2, 3, 4);
  EXPECT_FALSE(RandomIouRect(kImageSize, kBoxes, bounds, random).has_value());
  SampleRandom unused(1, 2, 3, 4);
  SampleRandom used(1, 2, 3, 4);
  EXPECT_FALSE(RandomIouRect(kImageSize, {}, bounds, used).has_value());
  EXPECT_EQ(unused.Next64(), used.Next64());
}

// The documented draws, by hand.
TEST(RandomIouRectTest, DrawsInItsOrder) {
  IouCropBounds bounds;
  bounds.min_overlaps = {0, 0.05};
  for (uint64_t position = 0; position < 50; ++position) {
    SampleRandom random(1, 2, position, 3);
    const auto rect = RandomIouRect(kImageSize, kBoxes, bounds, random);
    SampleRandom by_hand(1, 2, position, 3);
    const double least = bounds.min_overlaps[by_hand.NextBelow(2)];
    std::optional<Rect> expected;
    for (int i = 0; i < 40 && !expected.has_value(); ++i) {
      const int width = static_cast<int>(400 * by_hand.NextUniform(0.3, 1));
      const int height = static_cast<int>(300 * by_hand.NextUniform(0.3, 1));
      if (2 * width < height || width > 2 * height) continue;
      const int left = static_cast<int>((400 - width) * by_hand.NextUnit());
      const int top = static_cast<int>((300 - height) * by_hand.NextUnit());
      const Rect tried = {top, left, height, width};
      if (BestOverlap(tried) >= least) expected = tried;
    }
    ASSERT_TRUE(expected.has_value());
    EXPECT_EQ(*rect, *expected);
  }
}

TEST(HasMiddleInTest, EdgesAreOutside) {
  const Rect rect = {10, 20, 30, 40};
  EXPECT_TRUE(HasMiddleIn({20, 10, 22, 12}, rect));
  EXPECT_FALSE(HasMiddleIn({10, 20, 30, 30}, rect));  // x = 20
  EXPECT_FALSE(HasMiddleIn({30, 35, 50, 45}, rect));  // y = 40
  EXPECT_FALSE(HasMiddleIn({100, 20, 110, 30}, rect));
}

}  // namespace
}  // namespace bulkhead
