#pragma once

#include "absl/strings/string_view.h"
#include "server/image/codecs/image_format.h"

namespace bulkhead {

// The EXIF orientation of a JPEG (its first APP1 segment that holds EXIF), PNG (an eXIf chunk
// before the pixels) or WebP file (its EXIF chunk): 1 … 8; 1 if there is none, if it cannot be
// read, and for other formats. Odd metadata is never an error.
int ReadOrientation(ImageFormat format, absl::string_view file);

}  // namespace bulkhead
