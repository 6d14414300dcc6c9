#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/codecs/image_format.h"

namespace bulkhead::tools {

// Endings that `image_folder` takes where a spec names none: "jpg", in lower case.
const std::set<std::string>& UsualExtensions();

// "JPEG".
const char* FormatName(ImageFormat format);

// "JPEG 640 x 480 x 3": format, width, height and channels as the file's header has them; without
// what cannot be told. Empty for what begins as no image does.
std::string ImageText(absl::string_view file);
// The same of what was read of a file, or what is wrong with it.
std::string ImageText(const absl::StatusOr<std::string>& file);

// As much of a file of this host as is worth reading to look at its image. Blocks. NOT_FOUND for
// what is no regular file; the system's errors.
absl::StatusOr<std::string> ReadImageHead(const std::string& path);

}  // namespace bulkhead::tools
