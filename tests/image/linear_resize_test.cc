#include "server/image/resize/linear_resize.h"

#include <opencv2/imgproc.hpp>
#include <random>

#include "gtest/gtest.h"
#include "server/image/geometry/flip.h"

namespace bulkhead {
namespace {

using Flip = LinearResizer::Mirror;

// Memory of exactly the image's size, so that a sanitizer sees reads behind it.
std::vector<uint8_t> Noise(ImageSize size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> pixels(static_cast<size_t>(size.height) * size.width * 3);
  for (uint8_t& value : pixels) value = static_cast<uint8_t>(random());
  return pixels;
}

std::vector<uint8_t> Flipped(std::vector<uint8_t> pixels, ImageSize size) {
  ScratchBuffer row;
  FlipHorizontallyInPlace(ContiguousImage(pixels.data(), size, 3), row);
  return pixels;
}

std::vector<uint8_t> ByOpenCv(std::vector<uint8_t> pixels, ImageSize in, ImageSize out) {
  std::vector<uint8_t> result(static_cast<size_t>(out.height) * out.width * 3);
  cv::Mat to(out.height, out.width, CV_8UC3, result.data());
  cv::resize(cv::Mat(in.height, in.width, CV_8UC3, pixels.data()), to, to.size(), 0, 0,
             cv::INTER_LINEAR);
  return result;
}

std::vector<uint8_t> Resized(LinearResizer& resizer, std::vector<uint8_t>& pixels, ImageSize in,
                             ImageSize out) {
  std::vector<uint8_t> result(static_cast<size_t>(out.height) * out.width * 3);
  resizer.Begin(ContiguousImage(pixels.data(), in, 3));
  for (int y = 0; y < out.height; ++y) {
    resizer.NextRow(result.data() + static_cast<size_t>(y) * out.width * 3);
  }
  return result;
}

// With AVX2, and with AVX-512 where the machine has it.
class LinearResizeTest : public testing::TestWithParam<Simd> {
 protected:
  void SetUp() override {
    if (!UseAvx2(GetParam())) GTEST_SKIP() << "needs AVX2";
  }
};

TEST_P(LinearResizeTest, GivesOpenCvsPixelsForEverySmallSize) {
  LinearResizer resizer;
  int planned = 0;
  for (int in_width = 2; in_width < 24; ++in_width) {
    for (int out_width = 1; out_width < 40; ++out_width) {
      const ImageSize in{in_width / 3 + 2, in_width};
      const ImageSize out{out_width / 2 + 1, out_width};
      if (!resizer.Prepare(in, 3, out, Flip::kNone, GetParam())) continue;
      ++planned;
      std::vector<uint8_t> pixels = Noise(in, in_width * 100 + out_width);
      ASSERT_EQ(Resized(resizer, pixels, in, out), ByOpenCv(pixels, in, out))
          << in_width << " to " << out_width;
    }
  }
  EXPECT_GT(planned, 800);
}

TEST_P(LinearResizeTest, GivesOpenCvsPixelsForPhotoSizes) {
  LinearResizer resizer;
  const ImageSize sizes[] = {{375, 500}, {500, 333},   {224, 224},
                             {640, 640}, {1200, 1600}, {31, 997}};
  for (const ImageSize in : sizes) {
    for (const ImageSize out : sizes) {
      if (in == out) continue;
      std::vector<uint8_t> pixels = Noise(in, in.width);
      ASSERT_TRUE(resizer.Prepare(in, 3, out, Flip::kNone, GetParam()));
      ASSERT_EQ(Resized(resizer, pixels, in, out), ByOpenCv(pixels, in, out));
    }
  }
}

TEST_P(LinearResizeTest, MirrorsBeforeOrAfterAsTwoStepsWould) {
  LinearResizer resizer;
  const ImageSize in{37, 53};
  for (const ImageSize out : {ImageSize{64, 80}, {20, 17}, {37, 54}}) {
    std::vector<uint8_t> pixels = Noise(in, 5);
    ASSERT_TRUE(resizer.Prepare(in, 3, out, Flip::kAfter, GetParam()));
    EXPECT_EQ(Resized(resizer, pixels, in, out), Flipped(ByOpenCv(pixels, in, out), out));
    ASSERT_TRUE(resizer.Prepare(in, 3, out, Flip::kBefore, GetParam()));
    EXPECT_EQ(Resized(resizer, pixels, in, out), ByOpenCv(Flipped(pixels, in), in, out));
  }
}

TEST_P(LinearResizeTest, WritesTheSamePastTheCaches) {
  LinearResizer resizer;
  const ImageSize in{37, 53};
  // Rows that begin at multiples of 64 bytes, of 32, and rows that do neither.
  for (const ImageSize out : {ImageSize{64, 64}, {20, 77}, {9, 224}}) {
    std::vector<uint8_t> pixels = Noise(in, 5);
    ASSERT_TRUE(resizer.Prepare(in, 3, out, Flip::kNone, GetParam()));
    ScratchBuffer memory;  // aligned
    const MutableImageView image =
        ContiguousImage(memory.Resize(static_cast<size_t>(out.height) * out.width * 3), out, 3);
    resizer.Run(ContiguousImage(pixels.data(), in, 3), image, /*past_caches=*/true);
    EXPECT_EQ(std::vector<uint8_t>(image.data, image.data + image.row_bytes() * image.height),
              ByOpenCv(pixels, in, out));
  }
}

TEST_P(LinearResizeTest, LeavesWhatOpenCvDoesOtherwiseToIt) {
  LinearResizer resizer;
  EXPECT_FALSE(resizer.Prepare({10, 12}, 3, {10, 12}, Flip::kNone, GetParam()));
  EXPECT_FALSE(resizer.Prepare({10, 12}, 3, {5, 6}, Flip::kNone, GetParam()));
  EXPECT_FALSE(resizer.Prepare({1, 12}, 3, {5, 6}, Flip::kNone, GetParam()));
  EXPECT_FALSE(resizer.Prepare({10, 12}, 1, {5, 7}, Flip::kNone, GetParam()));
  EXPECT_FALSE(resizer.Prepare({10, 12}, 3, {5, 7}, Flip::kNone, Simd::kScalar));
}

INSTANTIATE_TEST_SUITE_P(Twins, LinearResizeTest, testing::Values(Simd::kAvx2, Simd::kBest));

}  // namespace
}  // namespace bulkhead
