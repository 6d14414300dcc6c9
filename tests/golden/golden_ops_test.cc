// The operations on pixels against torchvision's and Pillow's (make_golden_ops.py), each within the
// tolerance that stands beside it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/image/color/augment.h"
#include "server/image/color/blur.h"
#include "server/image/color/color.h"
#include "server/image/color/pixel_ops.h"
#include "server/image/geometry/warp.h"

namespace bulkhead::golden_ops_test {
namespace {

constexpr ImageSize kSize{25, 33};
constexpr uint8_t kFill[] = {10, 200, 90};
constexpr uint8_t kBlack[] = {0, 0, 0};

// What may differ: single values by at most `most`, in at most `share` of all values.
struct Tolerance {
  int most;
  double share;
};
constexpr Tolerance kExact{0, 0};

class GoldenOpsTest : public ::testing::Test {
 protected:
  GoldenOpsTest() {
    const std::string folder = std::string(getenv("BULKHEAD_SOURCE_DIR")) + "/tests/golden/data/";
    std::ifstream file(folder + "ops.bin", std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    std::ifstream list(folder + "ops.txt");
    std::string line;
    std::getline(list, line);  // the libraries' versions
    std::string name, dtype, shape;
    size_t offset = 0;
    while (list >> name >> dtype >> shape) {
      size_t size_bytes = dtype == "float64" ? 8 : 1;
      for (const absl::string_view extent : absl::StrSplit(shape, 'x')) {
        size_t value = 0;
        EXPECT_TRUE(absl::SimpleAtoi(extent, &value));
        size_bytes *= value;
      }
      arrays_[name] = bytes.substr(offset, size_bytes);
      offset += size_bytes;
    }
    EXPECT_EQ(offset, bytes.size());
    EXPECT_GE(arrays_.size(), 60u);
  }

  // The picture that `name` was made of.
  std::string Picture(const std::string& name) const {
    if (name.rfind("dark_", 0) == 0) return arrays_.at("dark");
    if (name.rfind("gray_", 0) != 0) return arrays_.at("picture");
    std::string green;
    for (size_t i = 1; i < arrays_.at("picture").size(); i += 3) {
      green += arrays_.at("picture")[i];
    }
    return green;
  }

  // Runs `operation` in place and compares with the recorded array called `name`.
  void Expect(const std::string& name, Tolerance tolerance,
              const std::function<void(const MutableImageView&)>& operation) {
    SCOPED_TRACE(name);
    std::string made = Picture(name);
    operation(ContiguousImage(reinterpret_cast<uint8_t*>(made.data()), kSize,
                              static_cast<int>(made.size() / (kSize.height * kSize.width))));
    const std::string& expected = arrays_.at(name);
    ASSERT_EQ(made.size(), expected.size());
    int most = 0;
    int differing = 0;
    for (size_t i = 0; i < made.size(); ++i) {
      const int difference =
          std::abs(static_cast<uint8_t>(made[i]) - static_cast<uint8_t>(expected[i]));
      most = std::max(most, difference);
      differing += difference > 0;
    }
    EXPECT_LE(most, tolerance.most);
    EXPECT_LE(differing, tolerance.share * static_cast<double>(made.size()));
  }

  void ExpectWarp(const std::string& name, Tolerance tolerance, const WarpMap& map) {
    const bool linear = name.find("linear") != std::string::npos;
    Expect(name, tolerance, [&](const MutableImageView& image) {
      std::vector<uint8_t> before(image.data, image.data + image.row_bytes() * image.height);
      WarpImage(ContiguousImage(before.data(), kSize, 3), map,
                linear ? WarpMethod::kLinear : WarpMethod::kNearest, linear ? kBlack : kFill,
                image);
    });
  }

  std::map<std::string, std::string> arrays_;
  ScratchBuffer scratch_;
};

// The same tables of integers.
TEST_F(GoldenOpsTest, TablesAreExact) {
  for (const int bits : {1, 4, 7}) {
    Expect(absl::StrCat("posterize_", bits), kExact,
           [&](const MutableImageView& image) { Posterize(bits, image); });
  }
  for (const int threshold : {0, 128, 201}) {
    Expect(absl::StrCat("solarize_", threshold), kExact,
           [&](const MutableImageView& image) { Solarize(threshold, image); });
  }
  Expect("equalize", kExact, Equalize);
  Expect("dark_equalize", kExact, Equalize);
  Expect("autocontrast", kExact, Autocontrast);
}

TEST_F(GoldenOpsTest, ColorsAreExact) {
  for (const auto& [text, factor] :
       {std::pair{"0.0", 0.0}, std::pair{"0.4", 0.4}, std::pair{"1.7", 1.7}}) {
    const double f = factor;
    Expect(absl::StrCat("brightness_", text), kExact,
           [&](const MutableImageView& image) { AdjustBrightness(f, image); });
    Expect(absl::StrCat("contrast_", text), kExact,
           [&](const MutableImageView& image) { AdjustContrast(f, image); });
    Expect(absl::StrCat("saturation_", text), kExact,
           [&](const MutableImageView& image) { AdjustSaturation(f, image); });
    Expect(absl::StrCat("sharpness_", text), kExact,
           [&](const MutableImageView& image) { AdjustSharpness(f, image, scratch_); });
  }
  Expect("gray_contrast_1.7", kExact,
         [](const MutableImageView& image) { AdjustContrast(1.7, image); });
  Expect("grayscale", kExact, ToGrayscale);
}

TEST_F(GoldenOpsTest, HueIsExact) {
  for (const auto& [text, shift] : {std::pair{"-0.5", -0.5}, std::pair{"-0.13", -0.13},
                                    std::pair{"0.07", 0.07}, std::pair{"0.4", 0.4}}) {
    const double s = shift;
    Expect(absl::StrCat("hue_", text), kExact,
           [&](const MutableImageView& image) { AdjustHue(s, image); });
  }
}

// Though torchvision adds the products of a square kernel, not of two rows of weights.
TEST_F(GoldenOpsTest, BlurIsExact) {
  for (const auto& [text, width, sigma] :
       {std::tuple{"3_0.5", 3, 0.5}, std::tuple{"7_1.5", 7, 1.5}, std::tuple{"23_4.0", 23, 4.0},
        std::tuple{"5_0.1", 5, 0.1}}) {
    const GaussianKernel kernel(width, sigma);
    Expect(absl::StrCat("blur_", text), kExact,
           [&](const MutableImageView& image) { GaussianBlur(kernel, image, scratch_); });
  }
}

// torchvision's coordinates are float32: a point next to a pixel's edge may fall to the other side.
// Its weights are float32, too; these are steps of 1/2048.
TEST_F(GoldenOpsTest, WarpsAreExactButAtEdgesOfPixels) {
  const AffineParameters turned{.angle = 33.3};
  const AffineParameters all{-17.0, 3, -2, 0.83, 11.0, -7.5};
  const AffineParameters large{201.0, -4, 1, 2.3, -20.0, 0.0};
  const Corners corners = {{{3, 2}, {30, 0}, {29, 22}, {1, 20}}};
  for (const auto& [method, tolerance] :
       {std::pair{"nearest", Tolerance{255, 0.002}}, std::pair{"linear", Tolerance{1, 0.005}}}) {
    ExpectWarp(absl::StrCat("affine_turned_", method), tolerance, AffineMap(kSize, turned));
    ExpectWarp(absl::StrCat("affine_all_", method), tolerance, AffineMap(kSize, all));
    ExpectWarp(absl::StrCat("affine_large_", method), tolerance, AffineMap(kSize, large));
    ExpectWarp(absl::StrCat("rotate_20_", method), tolerance, RotationMap(kSize, 20));
    ExpectWarp(absl::StrCat("perspective_", method), tolerance,
               PerspectiveMap(kSize, corners).value());
  }
}

constexpr const char* kOps[kAugmentOps] = {
    "Identity", "ShearX",   "ShearY",    "TranslateX", "TranslateY", "Rotate",       "Brightness",
    "Color",    "Contrast", "Sharpness", "Posterize",  "Solarize",   "AutoContrast", "Equalize"};

TEST_F(GoldenOpsTest, AugmentsAreTorchvisionsOperations) {
  const struct {
    const char* name;
    AugmentSpace space;
    int bin;
    bool negative;
  } runs[] = {{"rand", AugmentSpace::kRandAugment, 23, true},
              {"trivial", AugmentSpace::kTrivialAugmentWide, 17, false}};
  Image copy;
  for (const auto& run : runs) {
    for (int op = 0; op < static_cast<int>(AugmentOp::kAutocontrast); ++op) {
      const auto step =
          MakeAugmentStep(run.space, static_cast<AugmentOp>(op), run.bin, run.negative, kSize);
      // torchvision 0.14 blends also a pixel whose blur is itself, and may lose one; v2 does not.
      const bool sharpens = static_cast<AugmentOp>(op) == AugmentOp::kSharpness;
      Expect(absl::StrCat(run.name, "_", kOps[op]), sharpens ? Tolerance{1, 0.02} : kExact,
             [&](const MutableImageView& image) {
               ApplyAugment(step, WarpMethod::kNearest, kBlack, image, {copy, scratch_});
             });
    }
  }
}

// Every magnitude of both tables; torchvision cuts shifts off when it uses them.
TEST_F(GoldenOpsTest, MagnitudesAreTorchvisions) {
  for (const auto& [name, space] :
       {std::pair{"rand_magnitudes", AugmentSpace::kRandAugment},
        std::pair{"trivial_magnitudes", AugmentSpace::kTrivialAugmentWide}}) {
    const std::string& bytes = arrays_.at(name);
    ASSERT_EQ(bytes.size(), sizeof(double) * kAugmentOps * kAugmentBins);
    for (int i = 0; i < kAugmentOps * kAugmentBins; ++i) {
      SCOPED_TRACE(absl::StrCat(name, " ", kOps[i / kAugmentBins], " ", i % kAugmentBins));
      double expected = 0;
      std::memcpy(&expected, bytes.data() + i * sizeof(double), sizeof(double));
      const auto op = static_cast<AugmentOp>(i / kAugmentBins);
      const bool shifts = op == AugmentOp::kTranslateX || op == AugmentOp::kTranslateY;
      if (shifts) expected = std::floor(expected + 1e-4);
      const int bin = i % kAugmentBins;
      EXPECT_NEAR(MakeAugmentStep(space, op, bin, false, kSize).amount, expected, 1e-4);
      const bool has_directions = op >= AugmentOp::kShearX && op <= AugmentOp::kSharpness;
      EXPECT_NEAR(MakeAugmentStep(space, op, bin, true, kSize).amount,
                  has_directions ? -expected : expected, 1e-4);
    }
  }
}

}  // namespace
}  // namespace bulkhead::golden_ops_test
