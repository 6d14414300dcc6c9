#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/image/image.h"

namespace bulkhead {

struct JpegEncodeOptions {
  int quality = 90;  // 1 … 100
  // How much the chroma is reduced across and down: {2, 2} is 4:2:0, {1, 1} is 4:4:4.
  int chroma_width_divisor = 2;
  int chroma_height_divisor = 2;
  bool progressive = false;
  // MCUs between restart markers; 0: none.
  int restart_interval = 0;
};

// An image of 1 (gray) or 3 (RGB) channels as a JPEG file. INVALID_ARGUMENT when libjpeg refuses
// the size or the options. The same bytes on every machine.
absl::StatusOr<std::string> EncodeJpeg(const ImageView& image, const JpegEncodeOptions& options);

// An image of 1 (gray), 3 (RGB) or 4 (RGBA) channels as a PNG file.
absl::StatusOr<std::string> EncodePng(const ImageView& image);

}  // namespace bulkhead
