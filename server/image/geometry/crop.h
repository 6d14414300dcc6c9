#pragma once

#include "absl/status/statusor.h"
#include "server/base/random.h"
#include "server/image/image.h"

namespace bulkhead {

// The rectangle of `wanted` in the middle of an image; an odd rest goes to the bottom and right.
// Sample error: IMAGE_TOO_SMALL when it does not fit.
absl::StatusOr<Rect> CenterCropRect(ImageSize image, ImageSize wanted);

// A rectangle of `wanted` at a random place, uniform over all places. Draws, which are part of the
// data format: NextBelow(H − height + 1) for the top, NextBelow(W − width + 1) for the left. Sample
// error: IMAGE_TOO_SMALL when it does not fit; then nothing is drawn.
absl::StatusOr<Rect> RandomPlaceRect(ImageSize image, ImageSize wanted, SampleRandom& random);

// Bounds of a random rectangle's share of the image's area, and of its width / height.
struct RandomCropBounds {
  double scale_low;  // shares of the area
  double scale_high;
  double ratio_low;  // width by height
  double ratio_high;
};

// A random rectangle as torchvision's RandomResizedCrop.get_params chooses it: up to ten tries of
// an area = H·W·uniform(scale) and an aspect ratio = exp(uniform(log ratio)), giving width =
// round(sqrt(area · ratio)), height = round(sqrt(area / ratio)); the first that fits is placed
// uniformly; if none fits, the largest central rectangle whose ratio is within bounds. Draws, which
// are part of the data format: per try NextUniform(scale), NextUniform(log ratio); once one fits
// NextBelow(H − height + 1) for the top, NextBelow(W − width + 1) for the left. Always at least 1 ×
// 1 and inside the image.
Rect RandomCropRect(ImageSize image, const RandomCropBounds& bounds, SampleRandom& random);

}  // namespace bulkhead
