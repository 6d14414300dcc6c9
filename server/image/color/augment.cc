#include "server/image/color/augment.h"

#include <cmath>
#include <cstring>

#include "server/image/color/color.h"
#include "server/image/color/pixel_ops.h"

namespace bulkhead {
namespace {

constexpr int kMaxBin = kAugmentBins - 1;

// What the largest magnitudes mean.
struct Limits {
  double shear;
  double degrees;
  double factor;
  int lost_bits;
};
constexpr Limits kRandLimits{0.3, 30, 0.9, 4};
constexpr Limits kTrivialLimits{0.99, 135, 0.99, 6};

// Whole pixels, cut off: of RandAugment's 150/331 of the side, of TrivialAugmentWide's 32 pixels.
double Pixels(AugmentSpace space, int bin, int side) {
  if (space == AugmentSpace::kTrivialAugmentWide) return 32 * bin / kMaxBin;
  return static_cast<double>(int64_t{150} * side * bin / (331 * kMaxBin));
}

bool HasTwoDirections(AugmentOp op) {
  return op >= AugmentOp::kShearX && op <= AugmentOp::kSharpness;
}

double AmountOf(AugmentSpace space, AugmentOp op, int bin, ImageSize size) {
  const Limits& limits = space == AugmentSpace::kRandAugment ? kRandLimits : kTrivialLimits;
  switch (op) {
    case AugmentOp::kShearX:
    case AugmentOp::kShearY:
      return limits.shear * bin / kMaxBin;
    case AugmentOp::kTranslateX:
      return Pixels(space, bin, size.width);
    case AugmentOp::kTranslateY:
      return Pixels(space, bin, size.height);
    case AugmentOp::kRotate:
      return limits.degrees * bin / kMaxBin;
    case AugmentOp::kBrightness:
    case AugmentOp::kColor:
    case AugmentOp::kContrast:
    case AugmentOp::kSharpness:
      return limits.factor * bin / kMaxBin;
    case AugmentOp::kPosterize:
      // Rounded; halves do not occur.
      return 8 - (2 * limits.lost_bits * bin + kMaxBin) / (2 * kMaxBin);
    case AugmentOp::kSolarize:
      return 255.0 * (kMaxBin - bin) / kMaxBin;
    default:
      return 0;
  }
}

void WarpInPlace(const WarpMap& map, WarpMethod method, const uint8_t* fill,
                 const MutableImageView& image, Image& copy) {
  const MutableImageView before = copy.Reshape(image.size(), image.channels);
  for (int y = 0; y < image.height; ++y) {
    std::memcpy(before.row(y), image.row(y), image.row_bytes());
  }
  WarpImage(before, map, method, fill, image);
}

}  // namespace

AugmentStep MakeAugmentStep(AugmentSpace space, AugmentOp op, int bin, bool negative,
                            ImageSize size) {
  const double amount = AmountOf(space, op, bin, size);
  return {op, negative && HasTwoDirections(op) ? -amount : amount};
}

// Shears leave the upper left corner in its place, as torchvision's do.
std::optional<WarpMap> AugmentMap(const AugmentStep& step, ImageSize size) {
  if (step.op == AugmentOp::kRotate) return RotationMap(size, step.amount);
  WarpMap map;
  if (step.op == AugmentOp::kShearX) {
    map.m[1] = step.amount;
  } else if (step.op == AugmentOp::kShearY) {
    map.m[3] = step.amount;
  } else if (step.op == AugmentOp::kTranslateX) {
    map.m[2] = -step.amount;
  } else if (step.op == AugmentOp::kTranslateY) {
    map.m[5] = -step.amount;
  } else {
    return std::nullopt;
  }
  return map;
}

void ApplyAugment(const AugmentStep& step, WarpMethod method, const uint8_t* fill,
                  const MutableImageView& image, const AugmentScratch& scratch) {
  switch (step.op) {
    case AugmentOp::kIdentity:
      return;
    case AugmentOp::kShearX:
    case AugmentOp::kShearY:
    case AugmentOp::kTranslateX:
    case AugmentOp::kTranslateY:
    case AugmentOp::kRotate:
      return WarpInPlace(*AugmentMap(step, image.size()), method, fill, image, scratch.copy);
    case AugmentOp::kBrightness:
      return AdjustBrightness(1 + step.amount, image);
    case AugmentOp::kColor:
      return AdjustSaturation(1 + step.amount, image);
    case AugmentOp::kContrast:
      return AdjustContrast(1 + step.amount, image);
    case AugmentOp::kSharpness:
      return AdjustSharpness(1 + step.amount, image, scratch.rows);
    case AugmentOp::kPosterize:
      return Posterize(static_cast<int>(step.amount), image);
    case AugmentOp::kSolarize:
      return Solarize(static_cast<int>(std::ceil(step.amount)), image);
    case AugmentOp::kAutocontrast:
      return Autocontrast(image);
    case AugmentOp::kEqualize:
      return Equalize(image);
  }
}

}  // namespace bulkhead
