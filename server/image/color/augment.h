#ifndef BULKHEAD_SERVER_IMAGE_COLOR_AUGMENT_H_
#define BULKHEAD_SERVER_IMAGE_COLOR_AUGMENT_H_

#include <cstdint>
#include <optional>

#include "server/base/random.h"
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

// Which of torchvision's two tables says what a magnitude means.
enum class AugmentSpace { kRandAugment, kTrivialAugmentWide };

// An operation with what it is told: a shear's tangent, pixels, degrees, what is added to a factor
// of 1, bits, a threshold; 0 where it takes nothing.
struct AugmentStep {
  AugmentOp op = AugmentOp::kIdentity;
  double amount = 0;
};

// The step that `bin` stands for in an image of `size`; `negative` turns the amounts that have two
// directions.
AugmentStep MakeAugmentStep(AugmentSpace space, AugmentOp op, int bin, bool negative,
                            ImageSize size);

// Where the pixels of a step come from that moves them in an image of `size`; none for the others.
std::optional<WarpMap> AugmentMap(const AugmentStep& step, ImageSize size);

// Memory that steps work in.
struct AugmentScratch {
  Image& copy;
  ScratchBuffer& rows;
};

// Runs `step` on `image`, gray or RGB, in place. Pixels from outside are `fill`, one value a
// channel.
void ApplyAugment(const AugmentStep& step, WarpMethod method, const uint8_t* fill,
                  const MutableImageView& image, const AugmentScratch& scratch);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_IMAGE_COLOR_AUGMENT_H_
