#pragma once

#include "server/image/image.h"

namespace bulkhead {

// EXIF's orientations, 1 … 8, by where the stored image's first row and first column belong: 1 top,
// left; 2 top, right; 3 bottom, right; 4 bottom, left; 5 left, top; 6 right, top; 7 right, bottom;
// 8 left, bottom.

inline constexpr int kStoredUpright = 1;

// The size of an upright image that is stored as `stored`.
ImageSize UprightSize(ImageSize stored, int orientation);

// The place of the part `upright` of an upright image in the stored one.
Rect StoredRect(const Rect& upright, ImageSize stored, int orientation);

// Copies `in` upright into `out`, of UprightSize and the same channels; they must not overlap. A
// part of a stored image becomes the same part of the upright one.
void CopyUpright(const ImageView& in, int orientation, const MutableImageView& out);

}  // namespace bulkhead
