#pragma once

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "server/base/random.h"
#include "server/image/boxes/boxes.h"
#include "server/image/image.h"

namespace bulkhead {

struct IouCropBounds {
  double scale_low = 0.3;  // of each side
  double scale_high = 1;
  double ratio_low = 0.5;  // width / height
  double ratio_high = 2;
  std::vector<double> min_overlaps = {0, 0.1, 0.3, 0.5, 0.7, 0.9, 1};
  int trials = 40;
};

// Whether the box's centre is inside `rect`, and not on its edges.
bool HasMiddleIn(const Box& box, const Rect& rect);

// A random rectangle as torchvision's RandomIoUCrop chooses it, after SSD's (Liu et al., 2016):
// draw a least overlap; 1 and above leave the image whole. Otherwise try up to `trials` rectangles
// of a random width and height, and take the first with an allowed ratio, the centre of some box
// inside, and enough overlap with one of these boxes. If none fits, draw again. torchvision draws
// forever; this function draws 50 times, and leaves an image without boxes whole at once. Absent:
// the image is left whole.
//
// Draws, which are part of the data format: for each round NextBelow(number of overlaps); for each
// trial NextUniform(scale) for the width and for the height, and where the ratio is allowed
// NextUnit() for the left and for the top. Without boxes none.
std::optional<Rect> RandomIouRect(ImageSize image, absl::Span<const Box> boxes,
                                  const IouCropBounds& bounds, SampleRandom& random);

}  // namespace bulkhead
