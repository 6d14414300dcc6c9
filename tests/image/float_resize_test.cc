#include "server/image/resize/float_resize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <opencv2/imgproc.hpp>
#include <random>
#include <vector>

#include "server/base/checksum.h"

namespace bulkhead {
namespace {

std::vector<float> Noise(ImageSize size, size_t channels, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> pixels(static_cast<size_t>(size.height) * size.width * channels);
  for (float& value : pixels) {
    value = static_cast<float>(random() % 100'000) / 1'000.0f - 50.0f;
  }
  return pixels;
}

std::vector<float> Resized(const std::vector<float>& image, ImageSize in, size_t channels,
                           ImageSize out) {
  FloatResizer resizer;
  resizer.Prepare(in, channels, out);
  std::vector<float> result(static_cast<size_t>(out.height) * out.width * channels);
  resizer.Run(image.data(), result.data());
  return result;
}

constexpr ImageSize kSizes[] = {{1, 1}, {2, 2}, {3, 7}, {16, 9}, {17, 30}, {64, 64}};

TEST(FloatResizeTest, SamplesWhereOpenCvDoes) {
  for (const ImageSize in : kSizes) {
    for (const ImageSize out : kSizes) {
      for (const int channels : {1, 3}) {
        std::vector<float> image = Noise(in, static_cast<size_t>(channels), 1);
        const std::vector<float> result = Resized(image, in, static_cast<size_t>(channels), out);
        std::vector<float> expected(result.size());
        cv::Mat to(out.height, out.width, CV_32FC(channels), expected.data());
        cv::resize(cv::Mat(in.height, in.width, CV_32FC(channels), image.data()), to, to.size(), 0,
                   0, cv::INTER_LINEAR);
        for (size_t i = 0; i < result.size(); ++i) {
          // OpenCV rounds in another order, which depends on the machine.
          ASSERT_NEAR(result[i], expected[i], 2e-4)
              << in.height << "x" << in.width << " to " << out.height << "x" << out.width;
        }
      }
    }
  }
}

TEST(FloatResizeTest, TheSameSizeIsTheSameImage) {
  const std::vector<float> image = Noise({13, 17}, 3, 2);
  EXPECT_EQ(Resized(image, {13, 17}, 3, {13, 17}), image);
}

TEST(FloatResizeTest, HalvingAveragesFourPixels) {
  const std::vector<float> image = {1, 2, 3, 4,  //
                                    5, 6, 7, 8};
  EXPECT_EQ(Resized(image, {2, 4}, 1, {1, 2}), (std::vector<float>{3.5f, 5.5f}));
}

TEST(FloatResizeTest, ChannelsDoNotMix) {
  const std::vector<float> image = Noise({9, 11}, 3, 3);
  const std::vector<float> all = Resized(image, {9, 11}, 3, {5, 7});
  for (size_t c = 0; c < 3; ++c) {
    std::vector<float> plane;
    for (size_t i = c; i < image.size(); i += 3) plane.push_back(image[i]);
    const std::vector<float> alone = Resized(plane, {9, 11}, 1, {5, 7});
    for (size_t i = 0; i < alone.size(); ++i) ASSERT_EQ(alone[i], all[i * 3 + c]);
  }
}

// Recorded once: a compiler or machine that rounds otherwise would change batches.
TEST(FloatResizeTest, HasTheBitsThatItAlwaysHad) {
  const std::vector<float> result = Resized(Noise({31, 45}, 3, 4), {31, 45}, 3, {19, 28});
  Sha256 hash;
  hash.Update({reinterpret_cast<const char*>(result.data()), result.size() * sizeof(float)});
  EXPECT_EQ(hash.FinishHex().substr(0, 16), "ae39fb2d04fbad0f");
}

TEST(FloatResizeTest, IsReused) {
  FloatResizer resizer;
  for (const ImageSize in : kSizes) {
    const std::vector<float> image = Noise(in, 3, 5);
    resizer.Prepare(in, 3, {8, 6});
    std::vector<float> result(8 * 6 * 3);
    resizer.Run(image.data(), result.data());
    EXPECT_EQ(result, Resized(image, in, 3, {8, 6}));
  }
}

}  // namespace
}  // namespace bulkhead
