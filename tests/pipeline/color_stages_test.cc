// The stages of colour and the warps in a pipeline: what they draw, in which order, and that the
// sample's key alone decides.
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_replace.h"
#include "server/image/color/augment.h"
#include "server/image/color/blur.h"
#include "server/image/color/color.h"
#include "server/image/color/pixel_ops.h"
#include "server/image/geometry/erase.h"
#include "server/image/geometry/warp.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead::color_stages_test {
namespace {

constexpr ImageSize kSize{24, 32};
constexpr char kDecoded[] = "stages { decode_image {} } stages { resize { size: [24, 32] } } ";

// A pipeline with `stages` behind a decoder and a resize, on one photo.
class ColorPipeline {
 public:
  explicit ColorPipeline(const std::string& stages, const std::string& before = kDecoded)
      : pipeline_(MakeSpec(before + stages + " outputs: 'image'"), {MakeRecord(MakeJpeg(60, 90))}) {
  }

  std::string Run(const SampleKey& key) {
    const Produced produced = pipeline_.Produce(0, key);
    EXPECT_TRUE(produced.status.ok()) << produced.status;
    return produced.status.ok() ? produced.outputs[0] : "";
  }

 private:
  PipelineUnderTest pipeline_;
};

std::string In(const std::string& stage) { return "stages { " + stage + " } "; }

// What a third stage draws.
SampleRandom RandomOf(const SampleKey& key) {
  return SampleRandom(key.seed, key.epoch, key.position, StableHash("stages/2"));
}

// The image before the third stage, for changing it by hand.
struct ByHand {
  std::string pixels = ColorPipeline("").Run({});
  MutableImageView view() {
    return ContiguousImage(reinterpret_cast<uint8_t*>(pixels.data()), kSize, 3);
  }
  void Warp(const WarpMap& map, WarpMethod method, const uint8_t* fill) {
    const std::string before = pixels;
    const ImageView in = ByteView(before);
    WarpImage(in, map, method, fill, view());
  }
  static ImageView ByteView(const std::string& bytes) {
    return {reinterpret_cast<const uint8_t*>(bytes.data()), kSize.height, kSize.width, 3,
            static_cast<size_t>(kSize.width) * 3};
  }
};

constexpr const char* kChancy[] = {"color_jitter { brightness: [0.2, 0.4] probability: %}",
                                   "grayscale { probability: %}",
                                   "gaussian_blur { kernel: 5 sigma: 2 probability: %}",
                                   "random_erasing { probability: %}",
                                   "equalize { probability: %}",
                                   "autocontrast { probability: %}",
                                   "posterize { bits: 2 probability: %}",
                                   "solarize { probability: %}",
                                   "random_perspective { probability: %}"};

TEST(ColorStagesTest, ProbabilitiesOfZeroOneAndBetween) {
  const std::string before = ColorPipeline("").Run({});
  for (const std::string stage : kChancy) {
    SCOPED_TRACE(stage);
    const auto with = [&](const char* probability) {
      return In(absl::StrReplaceAll(stage, {{"%", probability}}));
    };
    ColorPipeline never(with("0"));
    ColorPipeline half(with("0.5"));
    ColorPipeline always(with("1"));
    int acted = 0;
    for (uint64_t position = 0; position < 60; ++position) {
      const SampleKey key{3, 1, position};
      EXPECT_TRUE(never.Run(key) == before);
      const std::string changed = always.Run(key);
      EXPECT_FALSE(changed == before);
      const std::string one = half.Run(key);
      EXPECT_TRUE(one == before || one == changed);
      EXPECT_EQ(one == changed, RandomOf(key).NextUnit() < 0.5);
      acted += one == changed;
    }
    EXPECT_GT(acted, 15);
    EXPECT_LT(acted, 45);
  }
}

constexpr const char* kRandom[] = {
    "color_jitter { brightness: 0.5 contrast: 0.5 saturation: 0.5 hue: 0.3 }",
    "gaussian_blur { kernel: 7 }",
    "random_erasing { probability: 1 }",
    "random_affine { degrees: 40 translate: [0.2, 0.2] scale: [0.6, 1.5] shear: 10 }",
    "random_perspective { probability: 1 }",
    "rand_augment { magnitude: 20 }",
    "trivial_augment {}"};

TEST(ColorStagesTest, TheKeyAloneDecides) {
  for (const std::string stage : kRandom) {
    SCOPED_TRACE(stage);
    ColorPipeline first(In(stage));
    ColorPipeline second(In(stage));
    std::set<std::string> images;
    for (uint64_t position = 0; position < 30; ++position) {
      images.insert(first.Run({1, 2, position}));
    }
    for (uint64_t position = 30; position-- > 0;) {
      EXPECT_EQ(images.count(second.Run({1, 2, position})), 1u);
    }
    EXPECT_TRUE(first.Run({1, 2, 7}) == second.Run({1, 2, 7}));
    EXPECT_GT(images.size(), 20u);
    int repeated = 0;
    for (uint64_t position = 0; position < 30; ++position) {
      repeated += images.count(second.Run({1, 3, position}));
    }
    EXPECT_LT(repeated, 15);  // of another epoch; augments may choose not to act
  }
}

TEST(ColorStagesTest, JitterDrawsItsOrderThenItsFactors) {
  ColorPipeline pipeline(
      In("color_jitter { brightness: 0.4 contrast: [0.2, 0.9] saturation: 0.7 hue: 0.2 }"));
  std::set<std::string> orders;
  for (uint64_t position = 0; position < 40; ++position) {
    const SampleKey key{5, 0, position};
    SampleRandom random = RandomOf(key);
    random.NextUnit();
    std::string order = "bcsh";
    for (const int last : {3, 2, 1}) std::swap(order[last], order[random.NextBelow(last + 1)]);
    const double brightness = random.NextUniform(0.6, 1.4);
    const double contrast = random.NextUniform(0.2, 0.9);
    const double saturation = random.NextUniform(1 - 0.7, 1.7);
    const double hue = random.NextUniform(-0.2, 0.2);
    ByHand expected;
    for (const char which : order) {
      if (which == 'b') AdjustBrightness(brightness, expected.view());
      if (which == 'c') AdjustContrast(contrast, expected.view());
      if (which == 's') AdjustSaturation(saturation, expected.view());
      if (which == 'h') AdjustHue(hue, expected.view());
    }
    orders.insert(order);
    EXPECT_TRUE(pipeline.Run(key) == expected.pixels) << order;
  }
  EXPECT_GT(orders.size(), 12u);
}

TEST(ColorStagesTest, BlurAndErasingDrawAfterTheirProbability) {
  ColorPipeline blurring(In("gaussian_blur { kernel: 9 sigma: [0.5, 3] }"));
  ColorPipeline erasing(In("random_erasing { probability: 1 fill: [7, 8, 9] }"));
  for (uint64_t position = 0; position < 20; ++position) {
    const SampleKey key{5, 0, position};
    SampleRandom random = RandomOf(key);
    random.NextUnit();
    SampleRandom same = random;
    ByHand blurred;
    ScratchBuffer scratch;
    GaussianBlur(GaussianKernel(9, random.NextUniform(0.5, 3)), blurred.view(), scratch);
    EXPECT_TRUE(blurring.Run(key) == blurred.pixels);
    ByHand erased;
    const uint8_t fill[] = {7, 8, 9};
    EraseRect(RandomEraseRect(kSize, {0.02, 0.33, 0.3, 3.3}, same).value(), fill, erased.view());
    EXPECT_TRUE(erasing.Run(key) == erased.pixels);
  }
}

TEST(ColorStagesTest, PixelStagesAreTheirOperations) {
  const auto expect = [](const std::string& stage, auto operation) {
    ByHand expected;
    operation(expected.view());
    EXPECT_TRUE(ColorPipeline(In(stage)).Run({}) == expected.pixels) << stage;
  };
  expect("grayscale {}", ToGrayscale);
  expect("equalize {}", Equalize);
  expect("autocontrast {}", Autocontrast);
  expect("posterize { bits: 3 }", [](const MutableImageView& image) { Posterize(3, image); });
  expect("solarize {}", [](const MutableImageView& image) { Solarize(128, image); });
  expect("solarize { threshold: 0 }", [](const MutableImageView& image) { Solarize(0, image); });
}

double RoundAway(double x) { return x < 0 ? -std::round(-x) : std::round(x); }

TEST(WarpStagesTest, AffineDrawsAllItsParametersInOrder) {
  ColorPipeline pipeline(
      In("random_affine { degrees: [10, 50] translate: [0.3, 0.1] scale: [0.7, 1.2] "
         "shear: [-5, 5, 2, 9] interpolation: INTERPOLATION_LINEAR fill: [10, 20, 30] }"));
  const uint8_t fill[] = {10, 20, 30};
  for (uint64_t position = 0; position < 20; ++position) {
    const SampleKey key{5, 0, position};
    SampleRandom random = RandomOf(key);
    AffineParameters drawn;
    drawn.angle = random.NextUniform(10, 50);
    drawn.shift_x = RoundAway(random.NextUniform(-0.3 * 32, 0.3 * 32));
    drawn.shift_y = RoundAway(random.NextUniform(-0.1 * 24, 0.1 * 24));
    drawn.scale = random.NextUniform(0.7, 1.2);
    drawn.shear_x = random.NextUniform(-5, 5);
    drawn.shear_y = random.NextUniform(2, 9);
    ByHand expected;
    expected.Warp(AffineMap(kSize, drawn), WarpMethod::kLinear, fill);
    EXPECT_TRUE(pipeline.Run(key) == expected.pixels);
  }
}

TEST(WarpStagesTest, PerspectiveDrawsItsCornersAfterItsProbability) {
  ColorPipeline linear(In("random_perspective { probability: 1 distortion: 0.8 fill: 50 }"));
  ColorPipeline nearest(
      In("random_perspective { probability: 1 distortion: 0.8 "
         "interpolation: INTERPOLATION_NEAREST }"));
  const uint8_t gray[] = {50, 50, 50};
  const uint8_t black[] = {0, 0, 0};
  for (uint64_t position = 0; position < 20; ++position) {
    const SampleKey key{5, 0, position};
    SampleRandom random = RandomOf(key);
    random.NextUnit();
    const WarpMap map = PerspectiveMap(kSize, RandomCorners(kSize, 0.8, random)).value();
    ByHand expected;
    expected.Warp(map, WarpMethod::kLinear, gray);
    EXPECT_TRUE(linear.Run(key) == expected.pixels);
    ByHand sharp;
    sharp.Warp(map, WarpMethod::kNearest, black);
    EXPECT_TRUE(nearest.Run(key) == sharp.pixels);
  }
}

TEST(WarpStagesTest, AugmentsDrawOperationMagnitudeAndSign) {
  ColorPipeline rand(In("rand_augment { operations: 3 magnitude: 12 fill: [1, 2, 3] }"));
  ColorPipeline trivial(In("trivial_augment { interpolation: INTERPOLATION_LINEAR fill: 9 }"));
  const uint8_t fill[] = {1, 2, 3};
  const uint8_t nines[] = {9, 9, 9};
  Image copy;
  ScratchBuffer rows;
  std::set<int> seen;
  for (uint64_t position = 0; position < 80; ++position) {
    const SampleKey key{5, 0, position};
    SampleRandom random = RandomOf(key);
    ByHand expected;
    for (int i = 0; i < 3; ++i) {
      const auto op = static_cast<AugmentOp>(random.NextBelow(14));
      const bool negative = random.NextBelow(2) == 1;
      seen.insert(static_cast<int>(op));
      ApplyAugment(MakeAugmentStep(AugmentSpace::kRandAugment, op, 12, negative, kSize),
                   WarpMethod::kNearest, fill, expected.view(), {copy, rows});
    }
    EXPECT_TRUE(rand.Run(key) == expected.pixels);
    SampleRandom other = RandomOf(key);
    ByHand one;
    const auto op = static_cast<AugmentOp>(other.NextBelow(14));
    const int bin = static_cast<int>(other.NextBelow(31));
    const bool negative = other.NextBelow(2) == 1;
    ApplyAugment(MakeAugmentStep(AugmentSpace::kTrivialAugmentWide, op, bin, negative, kSize),
                 WarpMethod::kLinear, nines, one.view(), {copy, rows});
    EXPECT_TRUE(trivial.Run(key) == one.pixels);
  }
  EXPECT_EQ(seen.size(), 14u);
}

// A warp writes into the batch, unless it does not act: then what came in is copied there.
TEST(WarpStagesTest, StagesBehindAWarpSeeItsResult) {
  ColorPipeline chain(In("random_affine { degrees: [90, 90] scale: [0.5, 0.5] fill: 40 }") +
                      In("posterize { bits: 1 }") +
                      In("random_perspective { probability: 0.5 distortion: 0 }") +
                      In("solarize { threshold: 1 }"));
  const uint8_t fill[] = {40, 40, 40};
  ByHand expected;
  expected.Warp(AffineMap(kSize, {.angle = 90, .scale = 0.5}), WarpMethod::kNearest, fill);
  Posterize(1, expected.view());
  Solarize(1, expected.view());
  for (uint64_t position = 0; position < 10; ++position) {
    EXPECT_TRUE(chain.Run({5, 0, position}) == expected.pixels);
  }
}

TEST(ColorStagesTest, RunOnOnePixelAndOnOtherChannelCounts) {
  for (const std::string color : {"GRAY", "RGB", "RGBA"}) {
    for (const std::string size : {"[1, 1]", "[1, 5]", "[7, 1]", "[3, 2]"}) {
      const std::string before = "stages { decode_image { color: COLOR_" + color +
                                 " } } stages { resize { size: " + size + " } } ";
      for (const auto& list : {absl::MakeConstSpan(kRandom), absl::MakeConstSpan(kChancy)}) {
        for (const std::string stage : list) {
          const bool rgb =
              stage.find("jitter") != std::string::npos || stage.find("gray") != std::string::npos;
          if (rgb && color != "RGB") continue;
          if (stage.find("augment") != std::string::npos && color == "RGBA") continue;
          SCOPED_TRACE(stage + color + size);
          ColorPipeline pipeline(In(absl::StrReplaceAll(stage, {{"%", "1"}})), before);
          const std::string once = pipeline.Run({1, 2, 3});
          EXPECT_FALSE(once.empty());
          EXPECT_TRUE(pipeline.Run({1, 2, 3}) == once);
        }
      }
    }
  }
}

}  // namespace
}  // namespace bulkhead::color_stages_test
