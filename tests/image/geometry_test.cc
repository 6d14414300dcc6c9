#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "opencv2/imgproc.hpp"
#include "server/base/error.h"
#include "server/image/color/normalize.h"
#include "server/image/deterministic_math.h"
#include "server/image/geometry/crop.h"
#include "server/image/geometry/flip.h"
#include "server/image/one_hot.h"
#include "server/image/resize/resize.h"
#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

TEST(ResizeTest, IsOpenCvsForEveryMethodChannelCountAndView) {
  const std::vector<std::pair<ResizeMethod, int>> methods = {
      {ResizeMethod::kNearest, cv::INTER_NEAREST},
      {ResizeMethod::kLinear, cv::INTER_LINEAR},
      {ResizeMethod::kArea, cv::INTER_AREA},
      {ResizeMethod::kCubic, cv::INTER_CUBIC}};
  for (const int channels : {1, 3, 4, 9}) {
    const Image picture = MakePicture(61, 83, channels);
    const ImageView crop = picture.view().Crop({5, 9, 50, 66});
    std::string contiguous = PixelsOf(crop);
    const cv::Mat in(50, 66, CV_8UC(channels), contiguous.data());
    for (const auto& [method, flag] : methods) {
      if (method == ResizeMethod::kArea && channels > 4) continue;  // OpenCV refuses
      for (const ImageSize size : {ImageSize{24, 24}, ImageSize{100, 40}, ImageSize{50, 66}}) {
        cv::Mat expected;
        cv::resize(in, expected, cv::Size(size.width, size.height), 0, 0, flag);
        Image out;
        ASSERT_TRUE(ResizeImage(crop, method, out.Reshape(size, channels)).ok());
        EXPECT_EQ(0, std::memcmp(out.view().data, expected.data, expected.total() * channels));
      }
    }
  }
}

TEST(FlipTest, MirrorsEveryRowInEveryTwin) {
  for (const int channels : {1, 2, 3, 4, 9}) {
    for (int width = 1; width <= 40; ++width) {
      const Image picture = MakePicture(3, width, channels);
      for (const Simd simd : {Simd::kScalar, Simd::kBest}) {
        Image flipped = MakePicture(3, width, channels);
        ScratchBuffer row;
        FlipHorizontallyInPlace(flipped.mutable_view(), row, simd);
        for (int y = 0; y < 3; ++y) {
          for (int x = 0; x < width; ++x) {
            for (int c = 0; c < channels; ++c) {
              ASSERT_EQ(flipped.view().row(y)[x * channels + c],
                        picture.view().row(y)[(width - 1 - x) * channels + c]);
            }
          }
        }
      }
    }
  }
}

TEST(FlipTest, UpsideDownTwiceIsAsBefore) {
  for (const int height : {1, 2, 7}) {
    const Image picture = MakePicture(height, 13, 3);
    Image flipped = MakePicture(height, 13, 3);
    ScratchBuffer row;
    FlipVerticallyInPlace(flipped.mutable_view(), row);
    for (int y = 0; y < height; ++y) {
      ASSERT_EQ(0, std::memcmp(flipped.view().row(y), picture.view().row(height - 1 - y), 39));
    }
    FlipVerticallyInPlace(flipped.mutable_view(), row);
    EXPECT_EQ(PixelsOf(flipped.view()), PixelsOf(picture.view()));
  }
}

TEST(NormalizerTest, IsWrittenArithmeticInFloat32ForEveryByte) {
  const Normalizer mean_std(Normalizer::Formula::kMeanStd,
                            {{123.675f, 58.395f}, {116.28f, 57.12f}, {103.53f, 57.375f}});
  const Normalizer divide(Normalizer::Formula::kDivideSubtract, {{127.5f, 1.0f}});
  int differs_from_reciprocal = 0;
  for (int i = 0; i < 256; ++i) {
    const volatile float x = static_cast<float>(i);
    const volatile float difference = x - 116.28f;
    const volatile float quotient = x / 127.5f;
    EXPECT_EQ(mean_std.Apply(1, x), difference / 57.12f);
    EXPECT_EQ(divide.Apply(0, x), quotient - 1.0f);
    const volatile float product = x * (1.0f / 127.5f);
    if (divide.Apply(0, x) != product - 1.0f) ++differs_from_reciprocal;
  }
  EXPECT_EQ(differs_from_reciprocal, 111);  // multiplying by a reciprocal would not be the same
}

TEST(NormalizerTest, ImagesOfBothLayoutsAndAllTwinsAgreeWithApply) {
  for (const int channels : {1, 2, 3, 4, 5, 9}) {
    for (const bool per_channel : {false, true}) {
      for (const auto formula :
           {Normalizer::Formula::kMeanStd, Normalizer::Formula::kDivideSubtract}) {
        std::vector<Normalizer::Channel> constants;
        for (int c = 0; c < (per_channel ? channels : 1); ++c) {
          constants.push_back({100.3f + 7 * c, 3.7f + c});
        }
        const Normalizer normalizer(formula, constants);
        const Image picture = MakePicture(13, 37, channels);
        const ImageView view = picture.view().Crop({1, 2, 11, 34});
        const size_t plane = 11 * 34;
        std::vector<float> last(plane * channels);
        std::vector<float> scalar(plane * channels);
        std::vector<float> best(plane * channels);
        normalizer.ApplyToImage(view, false, last.data());
        normalizer.ApplyToImage(view, true, scalar.data(), Simd::kScalar);
        normalizer.ApplyToImage(view, true, best.data(), Simd::kBest);
        for (size_t i = 0; i < plane; ++i) {
          for (int c = 0; c < channels; ++c) {
            const uint8_t byte = view.row(static_cast<int>(i / 34))[i % 34 * channels + c];
            const float expected = normalizer.Apply(per_channel ? c : 0, byte);
            ASSERT_EQ(last[i * channels + c], expected);
            ASSERT_EQ(scalar[c * plane + i], expected);
            ASSERT_EQ(best[c * plane + i], expected);
          }
        }
      }
    }
  }
}

TEST(ChannelsFirstTest, TwinsAgreeForEveryWidthAndChannelCountAndReadNothingBehind) {
  constexpr int kPage = 4096;
  auto* const pages = static_cast<uint8_t*>(
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(pages + kPage, kPage, PROT_NONE), 0);
  std::mt19937 random(5);
  std::generate_n(pages, kPage, std::ref(random));
  for (int channels = 1; channels <= 16; ++channels) {
    std::vector<Normalizer::Channel> constants;
    for (int c = 0; c < channels; ++c) constants.push_back({100.3f + 7 * c, 3.7f + c});
    const Normalizer normalizers[] = {{Normalizer::Formula::kMeanStd, constants},
                                      {Normalizer::Formula::kDivideSubtract, constants}};
    for (int width = 1; width <= 40; ++width) {
      SCOPED_TRACE(absl::StrCat(channels, " channels, width ", width));
      const size_t values = size_t{3} * width * channels;
      const MutableImageView image = ContiguousImage(pages + kPage - values, {3, width}, channels);
      std::vector<uint8_t> scalar(values + 1);  // one more, which stays
      std::vector<uint8_t> best(values + 1);
      CopyChannelsFirst(image, scalar.data(), Simd::kScalar);
      CopyChannelsFirst(image, best.data(), Simd::kBest);
      ASSERT_EQ(best, scalar);
      for (const Normalizer& normalizer : normalizers) {
        std::vector<float> scalar_floats(values + 1);
        std::vector<float> best_floats(values + 1);
        normalizer.ApplyToImage(image, true, scalar_floats.data(), Simd::kScalar);
        normalizer.ApplyToImage(image, true, best_floats.data(), Simd::kBest);
        ASSERT_EQ(best_floats, scalar_floats);
        normalizer.ApplyToImage(image, false, scalar_floats.data(), Simd::kScalar);
        normalizer.ApplyToImage(image, false, best_floats.data(), Simd::kBest);
        ASSERT_EQ(best_floats, scalar_floats);
      }
    }
  }
  munmap(pages, 2 * kPage);
}

TEST(NormalizerTest, AllTwinsGiveTheSameBitsOfEveryByteForAnyConstants) {
  Image image;
  const MutableImageView bytes = image.Reshape({1, 256}, 3);
  for (int x = 0; x < 256; ++x) std::memset(bytes.row(0) + 3 * x, x, 3);
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponent(-40, 40);
  std::uniform_real_distribution<float> near(-300, 300);
  const auto results = [&](const Normalizer& normalizer, Simd simd) {
    std::vector<uint32_t> bits(3 * 256);
    normalizer.ApplyToImage(bytes, true, reinterpret_cast<float*>(bits.data()), simd);
    return bits;
  };
  for (int round = 0; round < 2000; ++round) {
    const float wide = std::exp2(exponent(random));
    const std::vector<Normalizer::Channel> constants = {
        {near(random), near(random)}, {near(random), wide}, {wide, round % 2 == 0 ? 0 : wide}};
    for (const auto formula :
         {Normalizer::Formula::kMeanStd, Normalizer::Formula::kDivideSubtract}) {
      const Normalizer normalizer(formula, constants);
      const std::vector<uint32_t> expected = results(normalizer, Simd::kScalar);
      ASSERT_EQ(results(normalizer, Simd::kBest), expected) << round;
    }
  }
}

TEST(NormalizerTest, InPlaceFollowsTheChannelDimension) {
  const Normalizer normalizer(Normalizer::Formula::kDivideSubtract, {{1, 0}, {1, 100}});
  std::vector<float> last = {1, 2, 3, 4, 5, 6};
  normalizer.ApplyInPlace(last.data(), last.size(), 1);
  EXPECT_EQ(last, (std::vector<float>{1, -98, 3, -96, 5, -94}));
  std::vector<float> first = {1, 2, 3, 4, 5, 6};
  normalizer.ApplyInPlace(first.data(), first.size(), 3);
  EXPECT_EQ(first, (std::vector<float>{1, 2, 3, -96, -95, -94}));
}

TEST(LayoutTest, ChannelsFirstMovesEveryValue) {
  const Image picture = MakePicture(4, 5, 3);
  std::vector<uint8_t> planes(60);
  CopyChannelsFirst(picture.view(), planes.data());
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 5; ++x) {
      for (int c = 0; c < 3; ++c) {
        ASSERT_EQ(planes[c * 20 + y * 5 + x], picture.view().row(y)[x * 3 + c]);
      }
    }
  }
}

TEST(OneHotTest, SetsOneValueAndRefusesOthers) {
  std::vector<float> out(4, 9.0f);
  ASSERT_TRUE(OneHotEncode(2, 4, out.data()).ok());
  EXPECT_EQ(out, (std::vector<float>{0, 0, 1, 0}));
  for (const int64_t label : {int64_t{-1}, int64_t{4}, INT64_MAX, INT64_MIN}) {
    const absl::Status status = OneHotEncode(label, 4, out.data());
    EXPECT_TRUE(IsSampleError(status));
    EXPECT_EQ(GetErrorInfo(status)->reason, reason::kLabelOutOfRange);
  }
}

TEST(DeterministicMathTest, IsCloseToLibmAndStaysAsItIs) {
  for (double x = 1e-6; x < 1e6; x *= 1.0173) {
    EXPECT_NEAR(DeterministicLog(x), std::log(x), 1e-15 * (1 + std::abs(std::log(x))));
  }
  for (double x = -20; x < 20; x += 0.0171) {
    EXPECT_NEAR(DeterministicExp(x), std::exp(x), 5e-16 * std::exp(x));
  }
  EXPECT_EQ(DeterministicLog(4.0 / 3.0), 0x1.269621134db92p-2);
  EXPECT_EQ(DeterministicExp(0.2), 0x1.38add9e58ac8dp+0);
  EXPECT_EQ(DeterministicLog(1.0), 0.0);
  EXPECT_EQ(DeterministicExp(0.0), 1.0);
}

TEST(DeterministicMathTest, HalvesRoundToEven) {
  EXPECT_EQ(RoundHalfEven(0.5), 0);
  EXPECT_EQ(RoundHalfEven(1.5), 2);
  EXPECT_EQ(RoundHalfEven(2.5), 2);
  EXPECT_EQ(RoundHalfEven(2.5000001), 3);
  EXPECT_EQ(RoundHalfEven(7.0), 7);
}

TEST(CropTest, CenterIsTheMiddleAndTooSmallIsASampleError) {
  EXPECT_EQ(CenterCropRect({10, 21}, {4, 6}).value(), (Rect{3, 7, 4, 6}));
  EXPECT_EQ(CenterCropRect({4, 6}, {4, 6}).value(), (Rect{0, 0, 4, 6}));
  const auto refused = CenterCropRect({3, 100}, {4, 6});
  EXPECT_TRUE(IsSampleError(refused.status()));
  EXPECT_EQ(GetErrorInfo(refused.status())->reason, reason::kImageTooSmall);
}

TEST(CropTest, RandomPlacesAreUniformAndPartOfTheDataFormat) {
  std::vector<int> tops(4);
  std::vector<int> lefts(3);
  for (uint64_t position = 0; position < 3000; ++position) {
    SampleRandom random(1, 0, position, 5);
    const Rect rect = RandomPlaceRect({10, 22}, {7, 20}, random).value();
    ASSERT_EQ(rect.height, 7);
    ASSERT_EQ(rect.width, 20);
    ++tops.at(rect.top);
    ++lefts.at(rect.left);
  }
  for (const int count : tops) EXPECT_NEAR(count, 750, 120);
  for (const int count : lefts) EXPECT_NEAR(count, 1000, 120);
  SampleRandom random(1, 2, 3, StableHash("stages/1"));
  SampleRandom same(1, 2, 3, StableHash("stages/1"));
  const auto top = static_cast<int>(same.NextBelow(276));
  const auto left = static_cast<int>(same.NextBelow(401));
  EXPECT_EQ(RandomPlaceRect({375, 500}, {100, 100}, random).value(), (Rect{top, left, 100, 100}));
  EXPECT_EQ(RandomPlaceRect({10, 10}, {10, 10}, random).value(), (Rect{0, 0, 10, 10}));
  const auto refused = RandomPlaceRect({9, 10}, {10, 10}, random);
  EXPECT_EQ(GetErrorInfo(refused.status())->reason, reason::kImageTooSmall);
}

constexpr RandomCropBounds kBounds = {0.08, 1, 0.75, 4.0 / 3};

TEST(CropTest, RandomRectanglesKeepTheirBounds) {
  double smallest = 1;
  double largest = 0;
  for (uint64_t position = 0; position < 3000; ++position) {
    SampleRandom random(1, 0, position, 5);
    const Rect rect = RandomCropRect({375, 500}, kBounds, random);
    ASSERT_GE(rect.top, 0);
    ASSERT_GE(rect.left, 0);
    ASSERT_LE(rect.bottom(), 375);
    ASSERT_LE(rect.right(), 500);
    const double share = rect.height * rect.width / (375.0 * 500.0);
    const double ratio = static_cast<double>(rect.width) / rect.height;
    ASSERT_GT(share, 0.078);
    ASSERT_GT(ratio, 0.74);
    ASSERT_LT(ratio, 1.35);
    smallest = std::min(smallest, share);
    largest = std::max(largest, share);
  }
  EXPECT_LT(smallest, 0.1);
  EXPECT_GT(largest, 0.9);
}

TEST(CropTest, ImpossibleBoundsFallBackToTheCentre) {
  SampleRandom random(1, 0, 0, 5);
  // A very wide image: the full height, and the widest ratio allowed.
  EXPECT_EQ(RandomCropRect({30, 3000}, kBounds, random), (Rect{0, 1480, 30, 40}));
  EXPECT_EQ(RandomCropRect({4000, 30}, kBounds, random), (Rect{1980, 0, 40, 30}));
  EXPECT_EQ(RandomCropRect({1, 1}, kBounds, random), (Rect{0, 0, 1, 1}));
  RandomCropBounds too_large = kBounds;
  too_large.scale_low = too_large.scale_high = 50;
  EXPECT_EQ(RandomCropRect({40, 40}, too_large, random), (Rect{0, 0, 40, 40}));
}

TEST(CropTest, RandomRectangleIsPartOfTheDataFormat) {
  SampleRandom random(1, 2, 3, StableHash("stages/1"));
  EXPECT_EQ(RandomCropRect({375, 500}, kBounds, random), (Rect{55, 190, 286, 281}));
}

}  // namespace
}  // namespace bulkhead
