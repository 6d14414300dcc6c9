#include "server/image/color/color.h"

#include <gtest/gtest.h>

#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

using Pixel = std::array<uint8_t, 3>;

// What `change` makes of one RGB pixel.
template <typename Change>
Pixel Changed(const Pixel& pixel, Change change) {
  Image image;
  const MutableImageView view = image.Reshape({1, 1}, 3);
  std::copy(pixel.begin(), pixel.end(), view.data);
  change(view);
  return {view.data[0], view.data[1], view.data[2]};
}

TEST(ColorTest, NeutralFactorsChangeNothing) {
  const Image before = MakePicture(37, 301, 3);
  Image image = MakePicture(37, 301, 3);
  ScratchBuffer rows;
  AdjustBrightness(1, image.mutable_view());
  AdjustContrast(1, image.mutable_view());
  AdjustSaturation(1, image.mutable_view());
  AdjustHue(0, image.mutable_view());
  AdjustSharpness(1, image.mutable_view(), rows);
  EXPECT_TRUE(PixelsOf(image.view()) == PixelsOf(before.view()));
}

// Rows longer than a block, and every place in them.
TEST(ColorTest, APixelDoesNotDependOnItsPlace) {
  for (const int width : {1, 127, 128, 129, 300}) {
    Image image;
    const MutableImageView view = image.Reshape({2, width}, 3);
    for (int i = 0; i < 2 * width; ++i) {
      const uint8_t pixel[] = {200, 30, 90};
      std::memcpy(view.data + 3 * i, pixel, 3);
    }
    AdjustHue(0.2, view);
    AdjustSaturation(0.6, view);
    const Pixel expected = Changed({200, 30, 90}, [](const MutableImageView& one) {
      AdjustHue(0.2, one);
      AdjustSaturation(0.6, one);
    });
    EXPECT_NE(expected, (Pixel{200, 30, 90}));
    for (int i = 0; i < 2 * width; ++i) {
      ASSERT_EQ(0, std::memcmp(view.data + 3 * i, expected.data(), 3)) << width << " " << i;
    }
  }
}

TEST(ColorTest, ThirdsOfTheCircleSwapPrimaries) {
  const auto turn = [](double shift) {
    return [shift](const MutableImageView& image) { AdjustHue(shift, image); };
  };
  EXPECT_EQ(Changed({255, 0, 0}, turn(1.0 / 3)), (Pixel{0, 255, 0}));
  EXPECT_EQ(Changed({255, 0, 0}, turn(-1.0 / 3)), (Pixel{0, 0, 255}));
  EXPECT_EQ(Changed({255, 0, 0}, turn(0.5)), (Pixel{0, 255, 255}));
  EXPECT_EQ(Changed({10, 200, 10}, turn(-0.5)), (Pixel{200, 10, 200}));
  for (const uint8_t gray : {0, 1, 128, 255}) {
    EXPECT_EQ(Changed({gray, gray, gray}, turn(0.31)), (Pixel{gray, gray, gray}));
  }
}

TEST(ColorTest, ExtremesAreBlackGrayAndClamped) {
  const auto brightness = [](double factor) {
    return [factor](const MutableImageView& image) { AdjustBrightness(factor, image); };
  };
  const auto saturation = [](double factor) {
    return [factor](const MutableImageView& image) { AdjustSaturation(factor, image); };
  };
  const auto contrast = [](double factor) {
    return [factor](const MutableImageView& image) { AdjustContrast(factor, image); };
  };
  EXPECT_EQ(Changed({200, 30, 90}, brightness(0)), (Pixel{0, 0, 0}));
  EXPECT_EQ(Changed({200, 30, 90}, brightness(1000)), (Pixel{255, 255, 255}));
  // 0.2989 · 200 + 0.587 · 30 + 0.114 · 90 = 87.65
  EXPECT_EQ(Changed({200, 30, 90}, saturation(0)), (Pixel{87, 87, 87}));
  EXPECT_EQ(Changed({200, 30, 90}, contrast(0)), (Pixel{87, 87, 87}));
  EXPECT_EQ(Changed({200, 30, 90}, contrast(1000)), (Pixel{255, 0, 255}));
  EXPECT_EQ(Changed({200, 30, 90}, ToGrayscale), (Pixel{87, 87, 87}));
  EXPECT_EQ(Changed({255, 255, 255}, ToGrayscale), (Pixel{254, 254, 254}));
}

TEST(ColorTest, GrayImagesKeepTheirSaturation) {
  const Image before = MakePicture(9, 11, 1);
  Image image = MakePicture(9, 11, 1);
  AdjustSaturation(0, image.mutable_view());
  EXPECT_EQ(PixelsOf(image.view()), PixelsOf(before.view()));
  AdjustContrast(0, image.mutable_view());
  int sum = 0;
  for (const char value : PixelsOf(before.view())) sum += static_cast<uint8_t>(value);
  EXPECT_EQ(PixelsOf(image.view()), std::string(99, static_cast<char>(sum / 99)));
}

TEST(SharpnessTest, LeavesBordersAndImagesThatAreAllBorder) {
  ScratchBuffer rows;
  for (const int channels : {1, 3, 4, 9}) {
    const Image before = MakePicture(5, 7, channels);
    Image image = MakePicture(5, 7, channels);
    AdjustSharpness(0, image.mutable_view(), rows);
    int changed = 0;
    for (int y = 0; y < 5; ++y) {
      for (int i = 0; i < 7 * channels; ++i) {
        const bool border = y == 0 || y == 4 || i < channels || i >= 6 * channels;
        const bool differs = image.view().row(y)[i] != before.view().row(y)[i];
        EXPECT_FALSE(border && differs);
        changed += differs;
      }
    }
    EXPECT_GT(changed, 10);
    for (const ImageSize size : {ImageSize{1, 1}, ImageSize{2, 9}, ImageSize{9, 2}}) {
      const Image small = MakePicture(size.height, size.width, channels);
      Image same = MakePicture(size.height, size.width, channels);
      AdjustSharpness(0, same.mutable_view(), rows);
      EXPECT_EQ(PixelsOf(same.view()), PixelsOf(small.view()));
    }
  }
}

}  // namespace
}  // namespace bulkhead
