#ifndef BULKHEAD_TOOLS_INSPECT_IMAGE_HEADER_H_
#define BULKHEAD_TOOLS_INSPECT_IMAGE_HEADER_H_

#include <string>

#include "absl/strings/string_view.h"
#include "server/image/codecs/image_format.h"

namespace bulkhead::tools {

// "JPEG".
const char* FormatName(ImageFormat format);

// "JPEG 640 x 480 x 3": format, width, height and channels as the file's header has them; without
// what cannot be told. Empty for what begins as no image does.
std::string ImageText(absl::string_view file);
// The same of a file on the disk, or what is wrong with it.
std::string ImageFileText(const std::string& path);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_INSPECT_IMAGE_HEADER_H_
