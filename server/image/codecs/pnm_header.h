#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/codecs/rare_header.h"

namespace bulkhead {

// The header of a PNM (P1 … P6 of Netpbm), and the numbers of one in plain text. Decoded are those
// whose largest value is 255 or 65535, and bitmaps. Sample errors: IMAGE_TOO_LARGE above
// `max_pixels`, TRUNCATED_IMAGE where pixels are missing, CORRUPT_IMAGE, UNSUPPORTED_IMAGE.
absl::StatusOr<RareHeader> ReadPnmHeader(absl::string_view file, uint64_t max_pixels);

}  // namespace bulkhead
