#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/codecs/rare_header.h"

namespace bulkhead {

// The header of a BMP (Microsoft's BITMAPINFOHEADER and its relatives). Decoded are those without
// compression of 1, 4 or 8 bits with a palette, 24 bits, or 32 bits whose masks say BGR or BGRA.
// Sample errors: IMAGE_TOO_LARGE above `max_pixels`, TRUNCATED_IMAGE where pixels are missing,
// CORRUPT_IMAGE, UNSUPPORTED_IMAGE: run-length coding, 16 bits, other masks.
absl::StatusOr<RareHeader> ReadBmpHeader(absl::string_view file, uint64_t max_pixels);

}  // namespace bulkhead
