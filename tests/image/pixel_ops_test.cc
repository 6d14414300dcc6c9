#include "server/image/color/pixel_ops.h"

#include <gtest/gtest.h>

#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

// An image of one row.
Image MakeRow(const std::vector<uint8_t>& values, int channels) {
  Image image;
  const int width = static_cast<int>(values.size()) / channels;
  std::copy(values.begin(), values.end(), image.Reshape({1, width}, channels).data);
  return image;
}

std::vector<uint8_t> ValuesOf(const Image& image) {
  const std::string pixels = PixelsOf(image.view());
  return {pixels.begin(), pixels.end()};
}

using Values = std::vector<uint8_t>;

TEST(PosterizeTest, KeepsTheUpperBits) {
  Image image = MakeRow({0, 1, 127, 128, 200, 255}, 3);
  Posterize(8, image.mutable_view());
  EXPECT_EQ(ValuesOf(image), (Values{0, 1, 127, 128, 200, 255}));
  Posterize(3, image.mutable_view());
  EXPECT_EQ(ValuesOf(image), (Values{0, 0, 96, 128, 192, 224}));
}

TEST(SolarizeTest, InvertsFromTheThresholdOn) {
  Image image = MakeRow({0, 127, 128, 255}, 4);
  Solarize(128, image.mutable_view());
  EXPECT_EQ(ValuesOf(image), (Values{0, 127, 127, 0}));
  Solarize(256, image.mutable_view());
  EXPECT_EQ(ValuesOf(image), (Values{0, 127, 127, 0}));
  Solarize(0, image.mutable_view());
  EXPECT_EQ(ValuesOf(image), (Values{255, 128, 128, 255}));
}

TEST(AutocontrastTest, StretchesEachChannelByItself) {
  Image image = MakeRow({10, 7, 110, 7, 60, 7}, 2);
  Autocontrast(image.mutable_view());
  EXPECT_EQ(ValuesOf(image), (Values{0, 7, 255, 7, 127, 7}));
  Image pixel = MakeRow({9, 90, 200, 255}, 4);
  Autocontrast(pixel.mutable_view());
  EXPECT_EQ(ValuesOf(pixel), (Values{9, 90, 200, 255}));
}

TEST(EqualizeTest, MakesAnEvenHistogramAndLeavesFewPixelsAlone) {
  Image image = MakeRow({5, 5, 9, 80}, 1);
  Equalize(image.mutable_view());
  EXPECT_EQ(ValuesOf(image), (Values{5, 5, 9, 80}));
  // 40 to 103, 32 times each: spread over the whole range, in their order.
  Values narrow;
  for (int i = 0; i < 2048; ++i) narrow.push_back(static_cast<uint8_t>(40 + i / 32));
  Image wide = MakeRow(narrow, 1);
  Equalize(wide.mutable_view());
  const Values spread = ValuesOf(wide);
  EXPECT_TRUE(std::is_sorted(spread.begin(), spread.end()));
  EXPECT_EQ(spread.front(), 0);
  EXPECT_EQ(spread.back(), 255);
  EXPECT_EQ(spread[1024], (3 + 1024) / 7);  // 7 values a step, and 1024 that lie below
}

// What lies beside the rows of a view belongs to others.
TEST(PixelOpsTest, StayWithinTheirView) {
  const Image before = MakePicture(20, 30, 3);
  const Rect rect{3, 4, 10, 12};
  for (int op = 0; op < 4; ++op) {
    Image image = MakePicture(20, 30, 3);
    const MutableImageView view = image.mutable_view().Crop(rect);
    if (op == 0) Posterize(1, view);
    if (op == 1) Solarize(0, view);
    if (op == 2) Autocontrast(view);
    if (op == 3) MapValues(ValueTable{}, view);
    for (int y = 0; y < 20; ++y) {
      for (int x = 0; x < 30; ++x) {
        if (y >= rect.top && y < rect.bottom() && x >= rect.left && x < rect.right()) continue;
        ASSERT_EQ(0, std::memcmp(image.view().row(y) + 3 * x, before.view().row(y) + 3 * x, 3));
      }
    }
    EXPECT_NE(PixelsOf(view), PixelsOf(before.view().Crop(rect)));
  }
}

}  // namespace
}  // namespace bulkhead
