#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/image.h"
#include "server/image/pixel_format.h"

namespace bulkhead {

// The size in the header of a WebP `file`. Sample errors: CORRUPT_IMAGE, TRUNCATED_IMAGE,
// IMAGE_TOO_LARGE above `max_pixels`, UNSUPPORTED_IMAGE for an animation.
absl::StatusOr<ImageSize> ReadWebpSize(absl::string_view file, uint64_t max_pixels);

// Decodes a whole WebP `file`, lossy or lossless, with libwebp into `buffer`. Sample errors: as
// ReadWebpSize. Throws std::bad_alloc when memory is refused.
absl::StatusOr<ImageView> DecodeWebp(absl::string_view file, uint64_t max_pixels,
                                     PixelFormat format, Image& buffer);

}  // namespace bulkhead
