#pragma once

#include <cstdint>
#include <optional>

#include "server/base/random.h"
#include "server/image/image.h"

namespace bulkhead {

// Bounds of an erased rectangle's share of the image's area, and of its height / width.
struct EraseBounds {
  double scale_low;
  double scale_high;
  double ratio_low;
  double ratio_high;
};

// A random rectangle as torchvision's RandomErasing.get_params chooses it: up to ten tries of an
// area = H·W·uniform(scale) and a ratio = exp(uniform(log ratio)), giving height = round(sqrt(area
// · ratio)), width = round(sqrt(area / ratio)); the first that is smaller than the image both ways
// is placed uniformly; none when none is. May be empty. Draws, which are part of the data format:
// per try NextUniform(scale), NextUniform(log ratio); once one fits NextBelow(H − height + 1) for
// the top, NextBelow(W − width + 1) for the left.
std::optional<Rect> RandomEraseRect(ImageSize image, const EraseBounds& bounds,
                                    SampleRandom& random);

// Sets the pixels under `rect`, which lies inside, to `fill`, one value a channel.
void EraseRect(const Rect& rect, const uint8_t* fill, const MutableImageView& image);

}  // namespace bulkhead
