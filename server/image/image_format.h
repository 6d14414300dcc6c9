#ifndef BULKHEAD_SERVER_IMAGE_IMAGE_FORMAT_H_
#define BULKHEAD_SERVER_IMAGE_IMAGE_FORMAT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/image.h"

namespace bulkhead {

enum class ImageFormat { kUnknown, kJpeg, kPng, kWebp, kBmp, kTiff, kPnm, kGif };

// The format of a file by its first bytes, whatever its name says.
ImageFormat SniffFormat(absl::string_view file);

// The size in the header of a BMP, TIFF or PNM file (the formats left to OpenCV), read here so that
// the pixel cap is checked before anything is allocated. Sample errors: TRUNCATED_IMAGE,
// CORRUPT_IMAGE, IMAGE_TOO_LARGE above `max_pixels`.
absl::StatusOr<ImageSize> ReadRareSize(ImageFormat format, absl::string_view file,
                                       uint64_t max_pixels);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_IMAGE_IMAGE_FORMAT_H_
