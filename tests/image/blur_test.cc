#include "server/image/color/blur.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

int Mirror(int i, int extent) {
  if (extent == 1) return 0;
  const int period = 2 * (extent - 1);
  i = ((i % period) + period) % period;
  return i < extent ? i : period - i;
}

// The definition, in float64: all pixels under the square.
std::vector<double> BlurByDefinition(const ImageView& in, int width, double sigma) {
  const int radius = width / 2;
  std::vector<double> weights;
  double sum = 0;
  for (int d = -radius; d <= radius; ++d) {
    weights.push_back(std::exp(-0.5 * (d / sigma) * (d / sigma)));
    sum += weights.back();
  }
  std::vector<double> out;
  for (int y = 0; y < in.height; ++y) {
    for (int x = 0; x < in.width; ++x) {
      for (int c = 0; c < in.channels; ++c) {
        double value = 0;
        for (int j = -radius; j <= radius; ++j) {
          for (int i = -radius; i <= radius; ++i) {
            value += weights[j + radius] * weights[i + radius] *
                     in.row(Mirror(y + j, in.height))[Mirror(x + i, in.width) * in.channels + c];
          }
        }
        out.push_back(value / (sum * sum));
      }
    }
  }
  return out;
}

// Images larger and smaller than the kernel, down to one pixel.
TEST(GaussianBlurTest, IsItsDefinitionWithMirroredBorders) {
  ScratchBuffer scratch;
  for (const ImageSize size : {ImageSize{19, 23}, ImageSize{1, 1}, ImageSize{1, 17},
                               ImageSize{12, 1}, ImageSize{3, 2}, ImageSize{6, 40}}) {
    for (const int channels : {1, 3, 4}) {
      for (const auto& [width, sigma] :
           {std::pair{3, 0.8}, std::pair{11, 2.0}, std::pair{13, 500.0}}) {
        Image image = MakePicture(size.height, size.width, channels);
        const std::vector<double> expected = BlurByDefinition(image.view(), width, sigma);
        GaussianBlur(GaussianKernel(width, sigma), image.mutable_view(), scratch);
        const std::string made = PixelsOf(image.view());
        for (size_t i = 0; i < made.size(); ++i) {
          ASSERT_NEAR(static_cast<uint8_t>(made[i]), expected[i], 0.5001)
              << size.height << "x" << size.width << " " << width << " " << i;
        }
      }
    }
  }
}

TEST(GaussianBlurTest, NarrowOrSharpKernelsChangeNothing) {
  ScratchBuffer scratch;
  const Image before = MakePicture(9, 13, 3);
  for (const auto& [width, sigma] :
       {std::pair{1, 5.0}, std::pair{255, 1e-3}, std::pair{5, 1e-300}}) {
    Image image = MakePicture(9, 13, 3);
    GaussianBlur(GaussianKernel(width, sigma), image.mutable_view(), scratch);
    EXPECT_EQ(PixelsOf(image.view()), PixelsOf(before.view())) << width;
  }
}

TEST(GaussianKernelTest, WeightsAddUpToOne) {
  for (const auto& [width, sigma] : {std::pair{3, 0.1}, std::pair{23, 2.0}, std::pair{255, 60.0}}) {
    const GaussianKernel kernel(width, sigma);
    EXPECT_EQ(kernel.radius(), width / 2);
    double sum = kernel.weight(0);
    for (int d = 1; d <= kernel.radius(); ++d) {
      sum += 2 * kernel.weight(d);
      EXPECT_LT(kernel.weight(d), kernel.weight(d - 1) + 1e-12);
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(GaussianBlurTest, WhiteStaysWhiteAndNeighboursStay) {
  ScratchBuffer scratch;
  Image image;
  const MutableImageView whole = image.Reshape({30, 30}, 3);
  std::memset(whole.data, 7, whole.row_bytes() * 30);
  const MutableImageView view = whole.Crop({5, 5, 20, 20});
  for (int y = 0; y < 20; ++y) std::memset(view.row(y), 255, view.row_bytes());
  GaussianBlur(GaussianKernel(23, 3.3), view, scratch);
  EXPECT_EQ(PixelsOf(view), std::string(20 * 60, '\xFF'));
  EXPECT_EQ(whole.row(4)[30], 7);
  EXPECT_EQ(whole.row(10)[14], 7);
  EXPECT_EQ(whole.row(10)[75], 7);
}

}  // namespace
}  // namespace bulkhead
