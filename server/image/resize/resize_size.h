#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/image/image.h"

namespace bulkhead {

// How a resize computes its size from the image's.
struct ResizeRule {
  enum class By { kSize, kShorterSide, kLongerSide, kFactor };
  By by = By::kSize;
  ImageSize size;          // kSize: the result
  int64_t side = 0;        // kShorterSide, kLongerSide: what that side gets
  int64_t max_longer = 0;  // kShorterSide: bound of the longer side; 0: none
  double factor = 1;       // kFactor: both sides are multiplied by it
  bool round = false;      // computed sides: to nearest, halves up; else truncated
  uint64_t max_pixels = 0;
};

// The size of the result for an image of `image`, by torchvision's arithmetic: with a side given,
// the other one is side × longer / shorter (exactly, then made whole); where that is above
// `max_longer`, the shorter becomes max_longer × shorter / longer of those. Computed sides are at
// least 1. Sample error: IMAGE_TOO_LARGE, for a computed size with more than `max_pixels`.
absl::StatusOr<ImageSize> ResizedSize(ImageSize image, const ResizeRule& rule);

// The largest size of the image's shape that fits into `box`; the other side is rounded to nearest,
// halves up, and at least 1.
ImageSize FittingSize(ImageSize image, ImageSize box);

}  // namespace bulkhead
