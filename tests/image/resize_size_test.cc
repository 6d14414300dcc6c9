#include "server/image/resize/resize_size.h"

#include <gtest/gtest.h>

#include "server/base/error.h"

namespace bulkhead {
namespace {

ResizeRule Rule(ResizeRule::By by, int64_t side, int64_t max_longer = 0, bool round = false) {
  ResizeRule rule;
  rule.by = by;
  rule.side = side;
  rule.max_longer = max_longer;
  rule.round = round;
  rule.max_pixels = 1'000'000;
  return rule;
}

ResizeRule Factor(double factor, bool round = false) {
  ResizeRule rule;
  rule.by = ResizeRule::By::kFactor;
  rule.factor = factor;
  rule.round = round;
  rule.max_pixels = 1'000'000;
  return rule;
}

constexpr auto kShorter = ResizeRule::By::kShorterSide;
constexpr auto kLonger = ResizeRule::By::kLongerSide;

TEST(ResizedSizeTest, ShorterSideIsExactAndTheLongerOneTruncated) {
  EXPECT_EQ(ResizedSize({375, 500}, Rule(kShorter, 256)).value(), (ImageSize{256, 341}));
  EXPECT_EQ(ResizedSize({500, 375}, Rule(kShorter, 256)).value(), (ImageSize{341, 256}));
  EXPECT_EQ(ResizedSize({40, 40}, Rule(kShorter, 64)).value(), (ImageSize{64, 64}));
  EXPECT_EQ(ResizedSize({3, 5}, Rule(kShorter, 4)).value(), (ImageSize{4, 6}));  // 6.67
  EXPECT_EQ(ResizedSize({3, 5}, Rule(kShorter, 4, 0, true)).value(), (ImageSize{4, 7}));
  EXPECT_EQ(ResizedSize({2, 3}, Rule(kShorter, 3, 0, true)).value(), (ImageSize{3, 5}));  // 4.5
}

TEST(ResizedSizeTest, MaxSizeShrinksBoth) {
  EXPECT_EQ(ResizedSize({480, 640}, Rule(kShorter, 800, 1333)).value(), (ImageSize{800, 1066}));
  EXPECT_EQ(ResizedSize({480, 1000}, Rule(kShorter, 800, 1333)).value(),
            (ImageSize{640, 1333}));  // 800 x 1666, then int(1333 · 800 / 1666)
  EXPECT_EQ(ResizedSize({1000, 480}, Rule(kShorter, 800, 1333)).value(), (ImageSize{1333, 640}));
  EXPECT_EQ(ResizedSize({1, 5000}, Rule(kShorter, 8, 100)).value(), (ImageSize{1, 100}));
}

TEST(ResizedSizeTest, LongerSideIsExact) {
  EXPECT_EQ(ResizedSize({375, 500}, Rule(kLonger, 256)).value(), (ImageSize{192, 256}));
  EXPECT_EQ(ResizedSize({500, 374}, Rule(kLonger, 256)).value(), (ImageSize{256, 191}));
  EXPECT_EQ(ResizedSize({500, 374}, Rule(kLonger, 256, 0, true)).value(), (ImageSize{256, 191}));
  EXPECT_EQ(ResizedSize({1, 5000}, Rule(kLonger, 100)).value(), (ImageSize{1, 100}));
}

TEST(ResizedSizeTest, FactorsMultiplyBothSides) {
  EXPECT_EQ(ResizedSize({375, 501}, Factor(0.5)).value(), (ImageSize{187, 250}));
  EXPECT_EQ(ResizedSize({375, 501}, Factor(0.5, true)).value(), (ImageSize{188, 251}));
  EXPECT_EQ(ResizedSize({3, 7}, Factor(0.01)).value(), (ImageSize{1, 1}));
  EXPECT_EQ(ResizedSize({3, 7}, Factor(2.5)).value(), (ImageSize{7, 17}));
}

TEST(ResizedSizeTest, TooManyPixelsAreASampleError) {
  EXPECT_EQ(ResizedSize({1000, 500}, Factor(1.414213)).value(), (ImageSize{1414, 707}));
  EXPECT_EQ(ResizedSize({10, 10}, Factor(100)).value(), (ImageSize{1000, 1000}));
  for (const auto& [image, rule] : {std::pair{ImageSize{10, 10}, Factor(100.1)},
                                    std::pair{ImageSize{1, 65535}, Rule(kShorter, 65535)},
                                    std::pair{ImageSize{65535, 1}, Rule(kShorter, 65535)}}) {
    const auto refused = ResizedSize(image, rule);
    ASSERT_FALSE(refused.ok());
    EXPECT_TRUE(IsSampleError(refused.status()));
    EXPECT_EQ(GetErrorInfo(refused.status())->reason, reason::kImageTooLarge);
  }
}

TEST(FittingSizeTest, TouchesTwoSidesOfTheBox) {
  EXPECT_EQ(FittingSize({100, 200}, {640, 640}), (ImageSize{320, 640}));
  EXPECT_EQ(FittingSize({200, 100}, {640, 640}), (ImageSize{640, 320}));
  EXPECT_EQ(FittingSize({30, 40}, {30, 40}), (ImageSize{30, 40}));
  EXPECT_EQ(FittingSize({480, 641}, {100, 100}), (ImageSize{75, 100}));  // 74.9
  EXPECT_EQ(FittingSize({2, 3}, {9, 5}), (ImageSize{3, 5}));             // 3.3
  EXPECT_EQ(FittingSize({1, 5000}, {64, 64}), (ImageSize{1, 64}));
  for (int height = 1; height < 40; ++height) {
    for (int width = 1; width < 40; ++width) {
      const ImageSize fitted = FittingSize({height, width}, {17, 23});
      ASSERT_LE(fitted.height, 17);
      ASSERT_LE(fitted.width, 23);
      ASSERT_TRUE(fitted.height == 17 || fitted.width == 23) << height << " " << width;
    }
  }
}

}  // namespace
}  // namespace bulkhead
