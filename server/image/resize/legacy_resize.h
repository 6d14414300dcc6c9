#pragma once

#include "server/image/image.h"

namespace bulkhead {

// Where TensorFlow 1 sampled the input: at x × in / out, or, with its align_corners, at x × (in −
// 1) / (out − 1).
enum class LegacyCenters { kCorner, kAligned };

// Resizes `in` into `out` (any strides, the same number of channels, not overlapping) as TensorFlow
// 1's resize_bilinear and resize_nearest_neighbor did without half_pixel_centers: positions and
// pixels computed in float32. Its floats are then rounded to bytes, halves to even. `columns` is
// scratch.
void LegacyResizeLinear(const ImageView& in, LegacyCenters centers, const MutableImageView& out,
                        ScratchBuffer& columns);
void LegacyResizeNearest(const ImageView& in, LegacyCenters centers, const MutableImageView& out,
                         ScratchBuffer& columns);

}  // namespace bulkhead
