#ifndef BULKHEAD_SERVER_IMAGE_BOXES_IOU_CROP_H_
#define BULKHEAD_SERVER_IMAGE_BOXES_IOU_CROP_H_

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

// Whether the box's middle lies inside `rect`, and on none of its edges.
bool HasMiddleIn(const Box& box, const Rect& rect);

// A random rectangle as torchvision's RandomIoUCrop chooses it, after SSD's (Liu et al., 2016):
// draw a least overlap; 1 and above leave the image alone. Else try up to `trials` rectangles of a
// random width and height: one is taken whose ratio is allowed, that has some box's middle inside,
// and whose overlap with one of those boxes is enough. None fits: draw again. torchvision does that
// for ever, we 50 times; and an image without boxes stays whole at once, which is where torchvision
// ends. None: the image stays as it is.
//
// Draws, which are part of the data format: for each round NextBelow(number of overlaps); for each
// trial NextUniform(scale) for the width and for the height, and where the ratio is allowed
// NextUnit() for the left and for the top. Without boxes none.
std::optional<Rect> RandomIouRect(ImageSize image, absl::Span<const Box> boxes,
                                  const IouCropBounds& bounds, SampleRandom& random);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_IMAGE_BOXES_IOU_CROP_H_
