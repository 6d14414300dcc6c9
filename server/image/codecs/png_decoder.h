#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/image.h"
#include "server/image/pixel_format.h"

namespace bulkhead {

// The size in the header of a PNG `file`. Sample errors: CORRUPT_IMAGE, TRUNCATED_IMAGE,
// IMAGE_TOO_LARGE above `max_pixels`.
absl::StatusOr<ImageSize> ReadPngSize(absl::string_view file, uint64_t max_pixels);

// Decodes a whole PNG `file` with libspng into `buffer`: 16-bit samples are cut to their upper 8
// bits, palettes expanded, gamma ignored, alpha dropped unless `format` has it. Every critical
// chunk up to IEND must be there and, but for IEND's, have a right checksum; damaged ancillary
// chunks are ignored. Sample errors: CORRUPT_IMAGE, TRUNCATED_IMAGE, IMAGE_TOO_LARGE. Throws
// std::bad_alloc when memory is refused.
absl::StatusOr<ImageView> DecodePng(absl::string_view file, uint64_t max_pixels, PixelFormat format,
                                    Image& buffer);

// The same with 16 bits a channel: those of the file, or its 8 × 257. In the result two bytes, a
// uint16 of this machine, stand for each channel.
absl::StatusOr<ImageView> DecodeDeepPng(absl::string_view file, uint64_t max_pixels,
                                        PixelFormat format, Image& buffer);

}  // namespace bulkhead
