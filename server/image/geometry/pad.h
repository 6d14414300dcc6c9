#pragma once

#include <cstdint>
#include <vector>

#include "server/image/image.h"

namespace bulkhead {

// The values of an added pixel: one for all channels, or one per channel.
using PixelFill = std::vector<uint8_t>;

// Writes all of `out`, of the same channels as `in`: pixel (y, x) is that of `in` at (y − top, x −
// left), or `fill` where `in` has none. `top` and `left` may be negative: then `in` is cut.
void PlaceImage(const ImageView& in, int top, int left, const PixelFill& fill,
                const MutableImageView& out);

// Fills all of `image` outside `kept`, which must be inside the image.
void FillAround(const MutableImageView& image, const Rect& kept, const PixelFill& fill);

}  // namespace bulkhead
