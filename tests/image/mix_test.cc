#include "server/image/color/mix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace bulkhead {
namespace {

// Mean and variance over many draws, each from a stream of its own.
struct Moments {
  double mean = 0;
  double variance = 0;
};

Moments MomentsOf(double alpha, int count) {
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < count; ++i) {
    SampleRandom random(1, 2, static_cast<uint64_t>(i), 3);
    const double x = DrawBeta(random, alpha);
    EXPECT_GE(x, 0.0);
    EXPECT_LE(x, 1.0);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / count;
  return {mean, squares / count - mean * mean};
}

TEST(DrawBetaTest, HasTheMomentsOfBeta) {
  constexpr int kDraws = 20000;
  for (const double alpha : {0.001, 0.1, 0.2, 0.5, 1.0, 1.5, 4.0, 1000.0}) {
    const Moments moments = MomentsOf(alpha, kDraws);
    const double variance = 1.0 / (4.0 * (2.0 * alpha + 1.0));
    // Five standard errors.
    EXPECT_NEAR(moments.mean, 0.5, 5 * std::sqrt(variance / kDraws)) << alpha;
    EXPECT_NEAR(moments.variance / variance, 1.0, 0.06) << alpha;
  }
}

// Beta(1, 1) is uniform: every tenth gets its share.
TEST(DrawBetaTest, OfOneIsUniform) {
  std::vector<int> tenths(10);
  for (uint64_t i = 0; i < 20000; ++i) {
    SampleRandom random(1, 2, i, 3);
    ++tenths[std::min(9, static_cast<int>(DrawBeta(random, 1.0) * 10))];
  }
  for (const int count : tenths) EXPECT_NEAR(count, 2000, 5 * std::sqrt(2000.0));
}

TEST(DrawBetaTest, IsAFunctionOfItsRandomNumbers) {
  SampleRandom one(1, 2, 3, 4);
  SampleRandom same(1, 2, 3, 4);
  SampleRandom other(1, 2, 4, 4);
  const double x = DrawBeta(one, 0.2);
  EXPECT_EQ(x, DrawBeta(same, 0.2));
  EXPECT_NE(x, DrawBeta(other, 0.2));
}

TEST(MixShareTest, RoundsToTheNearestStep) {
  EXPECT_EQ(MixShare(0).steps(), 0u);
  EXPECT_EQ(MixShare(1).steps(), MixShare::kSteps);
  EXPECT_EQ(MixShare(0.25).share(), 0.25f);
  EXPECT_EQ(MixShare(1.4 / MixShare::kSteps).steps(), 1u);
  EXPECT_EQ(MixShare(1.6 / MixShare::kSteps).steps(), 2u);
  EXPECT_EQ(MixShare(-1).steps(), 0u);
  EXPECT_EQ(MixShare(2).steps(), MixShare::kSteps);
}

TEST(MixBytesTest, IsTheRoundedMixture) {
  std::vector<uint8_t> a(256 * 256);
  std::vector<uint8_t> b(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint8_t>(i / 256);
    b[i] = static_cast<uint8_t>(i % 256);
  }
  for (const double share : {0.0, 0.3, 0.5, 0.77, 1.0}) {
    const MixShare mix(share);
    const double own = mix.steps() / static_cast<double>(MixShare::kSteps);
    for (const Simd simd : {Simd::kScalar, Simd::kBest}) {
      std::vector<uint8_t> out = a;
      // Not a whole number of blocks.
      MixBytes(out.data(), b.data(), out.size() - 5, mix, simd);
      for (size_t i = 0; i < a.size() - 5; ++i) {
        const double exact = a[i] * own + b[i] * (1 - own);
        ASSERT_EQ(out[i], static_cast<uint8_t>(std::floor(exact + 0.5))) << i << " " << share;
      }
      EXPECT_TRUE(std::equal(out.end() - 5, out.end(), a.end() - 5)) << "not its bytes";
    }
  }
}

TEST(MixFloatsTest, IsRoundedAsWritten) {
  const std::vector<float> b = {0.1f, -3.0f, 1e30f, 7.0f};
  std::vector<float> a = {0.7f, 2.5f, -1e30f, 7.0f};
  const std::vector<float> before = a;
  MixFloats(a.data(), b.data(), a.size(), 0.3f);
  for (size_t i = 0; i < a.size(); ++i) {
    volatile float own = before[i] * 0.3f;
    volatile float other = b[i] * (1.0f - 0.3f);
    EXPECT_EQ(a[i], own + other);
  }
}

TEST(DrawCutTest, LiesInTheImageAndHasItsShareOfIt) {
  const ImageSize size = {100, 60};
  double area = 0;
  bool clipped = false;
  for (uint64_t i = 0; i < 1000; ++i) {
    SampleRandom random(1, 2, i, 3);
    const Rect rect = DrawCut(random, size, 0.75);
    ASSERT_GE(rect.left, 0);
    ASSERT_GE(rect.top, 0);
    ASSERT_LE(rect.right(), 60);
    ASSERT_LE(rect.bottom(), 100);
    // sqrt(1 - 0.75) = 0.5 of each side, in two whole halves.
    ASSERT_LE(rect.width, 30);
    ASSERT_LE(rect.height, 50);
    clipped |= rect.width < 30;
    area = std::max(area, static_cast<double>(rect.width) * rect.height);
  }
  EXPECT_EQ(area, 30 * 50);
  EXPECT_TRUE(clipped);
  SampleRandom random(1, 2, 3, 3);
  EXPECT_EQ(DrawCut(random, size, 1).width, 0);
}

}  // namespace
}  // namespace bulkhead
