// The inner loops: each by its scalar twin and as this machine runs it best.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "server/base/random.h"
#include "server/image/jpeg/color_convert.h"
#include "server/image/jpeg/idct.h"
#include "server/image/jpeg/upsample.h"

namespace bulkhead::jpeg {
namespace {

constexpr int kMaxBlocks = 13;

// Those that this machine has not are the next best ones again.
constexpr Simd kTwins[] = {Simd::kAvx2, Simd::kBest};

struct Blocks {
  alignas(32) std::array<int16_t, kMaxBlocks * kBlockCoefficients> coefficients{};
  std::array<uint8_t, kMaxBlocks> last{};
  int count = 0;
};

// Blocks whose coefficients end at random places, with values up to `limit`.
Blocks MakeBlocks(SampleRandom& random, int limit) {
  Blocks blocks;
  blocks.count = 1 + static_cast<int>(random.NextBelow(kMaxBlocks));
  static constexpr int kEnds[] = {0, 1, 9, 10, 63};
  const int end = kEnds[random.NextBelow(5)];
  for (int b = 0; b < blocks.count; ++b) {
    blocks.last[b] = static_cast<uint8_t>(random.NextBelow(end + 1));
    for (int k = 0; k <= blocks.last[b]; ++k) {
      blocks.coefficients[b * kBlockCoefficients + kNaturalOrder[k]] =
          static_cast<int16_t>(static_cast<int>(random.NextBelow(2 * limit + 1)) - limit);
    }
  }
  return blocks;
}

struct Samples {
  std::vector<uint8_t> bytes = std::vector<uint8_t>(8 * kMaxBlocks * 8);
  bool good = false;
};

Samples TransformBy(Simd simd, Blocks blocks, const Dequantizer& quant) {
  Samples samples;
  const ptrdiff_t stride = static_cast<ptrdiff_t>(blocks.count) * 8;
  samples.good = InverseTransform({blocks.coefficients.data(), blocks.last.data(), blocks.count},
                                  quant, samples.bytes.data(), stride, simd);
  const ptrdiff_t used = static_cast<ptrdiff_t>(blocks.count) * kBlockCoefficients;
  const auto begin = blocks.coefficients.begin();
  EXPECT_EQ(std::count(begin, begin + used, 0), used);
  return samples;
}

TEST(JpegIdctTest, TwinsAgree) {
  SampleRandom random(1, 0, 0, 0);
  int good = 0;
  int bad = 0;
  for (int i = 0; i < 20000; ++i) {
    const int factor = 1 + static_cast<int>(random.NextBelow(40));
    Dequantizer quant;
    for (int16_t& value : quant.factors) {
      value = static_cast<int16_t>(1 + random.NextBelow(factor));
    }
    // Up to what the entropy decoder lets through, most often less.
    const int limit = (1 + static_cast<int>(random.NextBelow(i % 4 == 0 ? 4095 : 300))) / factor;
    const Blocks blocks = MakeBlocks(random, limit);
    const Samples scalar = TransformBy(Simd::kScalar, blocks, quant);
    ++(scalar.good ? good : bad);
    for (const Simd simd : kTwins) {
      const Samples best = TransformBy(simd, blocks, quant);
      ASSERT_EQ(scalar.good, best.good);
      ASSERT_TRUE(!best.good || scalar.bytes == best.bytes);
    }
  }
  EXPECT_GT(good, 1000);
  EXPECT_GT(bad, 100);
}

TEST(JpegIdctTest, IsWithinOneOfTheRealTransform) {
  SampleRandom random(2, 0, 0, 0);
  Dequantizer quant;
  std::fill(std::begin(quant.factors), std::end(quant.factors), 1);
  for (int i = 0; i < 100; ++i) {
    Blocks blocks = MakeBlocks(random, 60);
    blocks.count = 1;
    const auto in = blocks.coefficients;
    const Samples samples = TransformBy(Simd::kBest, blocks, quant);
    for (int y = 0; y < 8; ++y) {
      for (int x = 0; x < 8; ++x) {
        double sum = 0;
        for (int v = 0; v < 8; ++v) {
          for (int u = 0; u < 8; ++u) {
            const double scale = (u == 0 ? std::sqrt(0.5) : 1) * (v == 0 ? std::sqrt(0.5) : 1) / 4;
            sum += scale * in[v * 8 + u] * std::cos((2 * x + 1) * u * M_PI / 16) *
                   std::cos((2 * y + 1) * v * M_PI / 16);
          }
        }
        ASSERT_NEAR(samples.bytes[y * 8 + x], std::clamp(sum + 128, 0.0, 255.0), 1);
      }
    }
  }
}

// Samples with what may be read around them.
std::vector<uint8_t> MakeRow(int count, SampleRandom& random) {
  std::vector<uint8_t> row(count + 2 * kRowPadding);
  for (uint8_t& value : row) {
    value = static_cast<uint8_t>(random.NextBelow(3) == 0 ? 255 * random.NextBelow(2)
                                                          : random.NextBelow(256));
  }
  return row;
}

TEST(JpegUpsampleTest, TwinsAgree) {
  SampleRandom random(3, 0, 0, 0);
  for (int count = 1; count < 150; ++count) {
    const std::vector<uint8_t> a = MakeRow(count, random);
    const std::vector<uint8_t> b = MakeRow(count, random);
    const uint8_t* near = a.data() + kRowPadding;
    const uint8_t* far = b.data() + kRowPadding;
    std::array<std::vector<uint8_t>, 3> across;
    std::array<std::vector<uint8_t>, 3> above;
    std::array<std::vector<uint8_t>, 3> below;
    std::array<std::vector<uint8_t>, 3> both;
    for (const Simd simd : {Simd::kScalar, Simd::kAvx2, Simd::kBest}) {
      const auto i = static_cast<size_t>(simd);
      for (auto* rows : {&across[i], &above[i], &below[i], &both[i]}) {
        rows->resize(2 * count + kRowPadding);
      }
      UpsampleAcross(near, count, across[i].data(), simd);
      UpsampleDown(near, far, Side::kAbove, count, above[i].data(), simd);
      UpsampleDown(near, far, Side::kBelow, count, below[i].data(), simd);
      UpsampleBoth(near, far, count, both[i].data(), simd);
      across[i].resize(2 * count);
      above[i].resize(count);
      below[i].resize(count);
      both[i].resize(2 * count);
    }
    for (size_t twin = 1; twin < 3; ++twin) {
      ASSERT_EQ(across[0], across[twin]);
      ASSERT_EQ(above[0], above[twin]);
      ASSERT_EQ(below[0], below[twin]);
      ASSERT_EQ(both[0], both[twin]);
    }
    ASSERT_TRUE(count < 30 || above[0] != below[0]);
  }
}

TEST(JpegUpsampleTest, AnEdgeThatStandsTwiceKeepsItsValue) {
  const std::vector<uint8_t> row(200, 77);
  std::vector<uint8_t> out(200);
  UpsampleAcross(row.data() + 64, 20, out.data(), Simd::kBest);
  EXPECT_EQ(std::count(out.begin(), out.begin() + 40, 77), 40);
  UpsampleBoth(row.data() + 64, row.data() + 64, 20, out.data(), Simd::kBest);
  EXPECT_EQ(std::count(out.begin(), out.begin() + 40, 77), 40);
}

TEST(JpegColorConvertTest, TwinsAgreeOnEveryColour) {
  std::vector<uint8_t> y(256 + kRowPadding);
  std::vector<uint8_t> cb(256 + kRowPadding);
  std::vector<uint8_t> cr(256 + kRowPadding);
  for (int i = 0; i < 256; ++i) y[i] = static_cast<uint8_t>(i);
  std::array<uint8_t, 256 * 3> scalar{};
  std::array<uint8_t, 256 * 3> best{};
  for (int blue = 0; blue < 256; ++blue) {
    for (int red = 0; red < 256; ++red) {
      std::fill(cb.begin(), cb.end(), static_cast<uint8_t>(blue));
      std::fill(cr.begin(), cr.end(), static_cast<uint8_t>(red));
      const YccRow row = {y.data(), cb.data(), cr.data()};
      ConvertRow(row, 256, PixelFormat::kRgb, scalar.data(), Simd::kScalar);
      for (const Simd simd : kTwins) {
        ConvertRow(row, 256, PixelFormat::kRgb, best.data(), simd);
        ASSERT_EQ(scalar, best) << blue << " " << red;
      }
    }
  }
}

TEST(JpegColorConvertTest, WritesEveryFormatAndNothingBehindIt) {
  SampleRandom random(4, 0, 0, 0);
  for (int count = 1; count < 200; ++count) {
    const std::vector<uint8_t> y = MakeRow(count, random);
    const std::vector<uint8_t> cb = MakeRow(count, random);
    const std::vector<uint8_t> cr = MakeRow(count, random);
    const YccRow row = {y.data(), cb.data(), cr.data()};
    for (const PixelFormat format : {PixelFormat::kRgb, PixelFormat::kBgr, PixelFormat::kRgba}) {
      const size_t bytes = static_cast<size_t>(count) * ChannelCount(format);
      std::vector<uint8_t> scalar(bytes + 64, 99);
      ConvertRow(row, count, format, scalar.data(), Simd::kScalar);
      for (const Simd simd : kTwins) {
        std::vector<uint8_t> best(bytes + 64, 99);
        ConvertRow(row, count, format, best.data(), simd);
        ASSERT_EQ(scalar, best);
        ASSERT_EQ(std::count(best.begin() + bytes, best.end(), 99), 64);
      }
    }
  }
}

}  // namespace
}  // namespace bulkhead::jpeg
