#pragma once

#include <cstdint>
#include <optional>

#include "server/image/geometry/warp.h"
#include "server/image/image.h"

namespace bulkhead {

// The operations that RandAugment and TrivialAugmentWide choose from, in torchvision's order; an
// operation's number is part of the data format.
enum class AugmentOp {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutocontrast,
  kEqualize,
};
inline constexpr int kAugmentOps = 14;
// Magnitudes go from 0 (least) to kAugmentBins − 1 (most).
inline constexpr int kAugmentBins = 31;

// Which of torchvision's two tables defines the magnitudes.
enum class AugmentSpace { kRandAugment, kTrivialAugmentWide };

// An operation with its amount: a shear's tangent, pixels, degrees, a difference to the factor 1,
// bits, or a threshold; 0 if it takes none.
struct AugmentStep {
  AugmentOp op = AugmentOp::kIdentity;
  double amount = 0;
};

// The step for magnitude `bin` in an image of `size`; `negative` changes the sign of amounts that
// have one.
AugmentStep MakeAugmentStep(AugmentSpace space, AugmentOp op, int bin, bool negative,
                            ImageSize size);

// The map of a step that moves pixels in an image of `size`; absent for other steps.
std::optional<WarpMap> AugmentMap(const AugmentStep& step, ImageSize size);

// Scratch memory for steps.
struct AugmentScratch {
  Image& copy;
  ScratchBuffer& rows;
};

// Runs `step` on `image`, gray or RGB, in place. Pixels from outside are `fill`, one value a
// channel.
void ApplyAugment(const AugmentStep& step, WarpMethod method, const uint8_t* fill,
                  const MutableImageView& image, const AugmentScratch& scratch);

}  // namespace bulkhead
