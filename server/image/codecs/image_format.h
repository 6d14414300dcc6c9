#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/codecs/rare_header.h"

namespace bulkhead {

enum class ImageFormat { kUnknown, kJpeg, kPng, kWebp, kBmp, kTiff, kPnm, kGif };

// The format of a file by its first bytes, whatever its name says.
ImageFormat SniffFormat(absl::string_view file);

// The header of a BMP, TIFF or PNM file (the formats left to the plugin), read here so that the
// pixel cap is checked before anything is allocated, and the plugin's codecs get only files that
// they decode correctly. Sample errors: TRUNCATED_IMAGE, CORRUPT_IMAGE, UNSUPPORTED_IMAGE,
// IMAGE_TOO_LARGE above `max_pixels`.
absl::StatusOr<RareHeader> ReadRareHeader(ImageFormat format, absl::string_view file,
                                          uint64_t max_pixels);

}  // namespace bulkhead
