#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/codecs/imgcodecs_abi.h"
#include "server/image/image.h"
#include "server/image/pixel_format.h"

namespace bulkhead {

// OpenCV's image codecs and libtiff, in a shared library of their own (libbulkhead_imgcodecs.so),
// because they need over a hundred other libraries. It is loaded with the first file of a rare
// format, for the life of the process. Immutable; thread-safe.
class ImgcodecsPlugin {
 public:
  // The plugin; loaded by the first call that finds it, from $BULKHEAD_PLUGIN_DIR, else the folder
  // ../lib beside the running program, else the folder it is installed in. Error: PLUGIN_MISSING
  // (FAILED_PRECONDITION, not a sample error) with the places searched.
  static absl::StatusOr<const ImgcodecsPlugin*> Load();
  // The folders where it is looked for, whether or not they exist.
  static std::vector<std::string> Folders();

  // Decodes the whole `file` into `buffer`. The caller has checked its header (ReadRareHeader).
  // Sample error: CORRUPT_IMAGE. Throws std::bad_alloc when memory is refused.
  absl::StatusOr<ImageView> Decode(absl::string_view file, PixelFormat format, Image& buffer) const;

 private:
  explicit ImgcodecsPlugin(BulkheadImgcodecsDecodeFn decode) : decode_(decode) {}

  BulkheadImgcodecsDecodeFn decode_;
};

}  // namespace bulkhead
