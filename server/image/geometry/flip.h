#pragma once

#include "server/image/image.h"
#include "server/image/simd.h"

namespace bulkhead {

// Mirrors left and right, in place, any number of channels; `row` is scratch for one row.
void FlipHorizontallyInPlace(const MutableImageView& image, ScratchBuffer& row,
                             Simd simd = DefaultSimd());

// Mirrors top and bottom, in place; `row` is scratch for one row.
void FlipVerticallyInPlace(const MutableImageView& image, ScratchBuffer& row);

}  // namespace bulkhead
