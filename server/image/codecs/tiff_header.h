#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/codecs/rare_header.h"

namespace bulkhead {

// The first directory of a TIFF (TIFF 6.0, section 2). Decoded are gray, palette and RGB images of
// whole samples without alpha, in strips or tiles, uncompressed or compressed by LZW, deflate,
// PackBits, a fax code or JPEG. Sample errors: IMAGE_TOO_LARGE above `max_pixels`, TRUNCATED_IMAGE
// where a strip or tile lies outside of the file, CORRUPT_IMAGE, UNSUPPORTED_IMAGE.
absl::StatusOr<RareHeader> ReadTiffHeader(absl::string_view file, uint64_t max_pixels);

}  // namespace bulkhead
