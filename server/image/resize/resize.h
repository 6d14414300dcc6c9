#pragma once

#include "absl/status/status.h"
#include "server/image/image.h"
#include "server/image/resize/linear_resize.h"

namespace bulkhead {

enum class ResizeMethod { kNearest, kLinear, kArea, kCubic };

// Resizes `in` into `out` (any strides, the same 1, 3 or 4 channels, not overlapping), with the
// pixels of OpenCV's cv::resize: half-pixel centres, no antialiasing except for kArea. On the
// calling thread. INTERNAL when OpenCV refuses; throws std::bad_alloc when memory is refused.
absl::Status ResizeImage(const ImageView& in, ResizeMethod method, const MutableImageView& out);

// The same pixels, by `resizer` where it knows how, which is sooner. `past_caches` as its Run's.
absl::Status ResizeImage(const ImageView& in, ResizeMethod method, const MutableImageView& out,
                         LinearResizer& resizer, bool past_caches);

}  // namespace bulkhead
