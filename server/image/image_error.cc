#include "server/image/image_error.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {

absl::Status CheckImageSize(absl::string_view format, uint64_t width, uint64_t height,
                            uint64_t max_pixels) {
  if (width == 0 || height == 0) {
    return SampleError(reason::kCorruptImage,
                       absl::StrCat("the header of this ", format, " says ", width, " x ", height,
                                    " pixels; write the file again"));
  }
  // No header field has more than 32 bits, so that the product fits; views count in int.
  constexpr uint64_t kMaxExtent = 0x7fffffff;
  if (width > kMaxExtent || height > kMaxExtent || width * height > max_pixels) {
    return SampleError(
        reason::kImageTooLarge,
        absl::StrCat("the header of this ", format, " says ", width, " x ", height,
                     " pixels, more than decode_image.max_pixels = ", max_pixels,
                     "; raise max_pixels if such images are genuine, or remove the file"));
  }
  return absl::OkStatus();
}

}  // namespace bulkhead
