#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/image.h"

namespace bulkhead {

// For `bulkhead bench decode-limit`: a full decode of a JPEG file to RGB by libjpeg-turbo alone,
// without our checks or partial decoding; warnings are ignored. The codec and the pixel buffer are
// reused from file to file. Not thread-safe.
class PlainJpegDecoder {
 public:
  PlainJpegDecoder();
  ~PlainJpegDecoder();
  PlainJpegDecoder(const PlainJpegDecoder&) = delete;
  PlainJpegDecoder& operator=(const PlainJpegDecoder&) = delete;

  // The whole image, valid until the next call. Errors: as JpegErrorManager::ToStatus.
  absl::StatusOr<ImageView> Decode(absl::string_view file);

 private:
  struct Codec;
  std::unique_ptr<Codec> codec_;
};

}  // namespace bulkhead
