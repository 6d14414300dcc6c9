#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// OK, or the sample error for an image of that size: IMAGE_TOO_LARGE above `max_pixels`,
// CORRUPT_IMAGE when an extent is 0. `format` names the file format: "JPEG".
absl::Status CheckImageSize(absl::string_view format, uint64_t width, uint64_t height,
                            uint64_t max_pixels);

}  // namespace bulkhead
