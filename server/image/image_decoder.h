#ifndef BULKHEAD_SERVER_IMAGE_IMAGE_DECODER_H_
#define BULKHEAD_SERVER_IMAGE_IMAGE_DECODER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/decode_allowance.h"
#include "server/image/image.h"
#include "server/image/image_format.h"
#include "server/image/jpeg_decoder.h"
#include "server/image/pixel_format.h"

namespace bulkhead {

// The one door to all decoders: finds the format by the file's first bytes, JPEG by libjpeg-turbo,
// PNG by libspng, WebP by libwebp, BMP, TIFF and PNM by OpenCV's codecs (a plugin). Every thread
// has one and uses it for file after file. EXIF orientation is not applied. Not thread-safe.
//
//   ImageDecoder decoder;
//   BULKHEAD_ASSIGN_OR_RETURN(const ImageSize size, decoder.Open(file, max_pixels));
//   const Rect crop = …;  // inside size
//   BULKHEAD_ASSIGN_OR_RETURN(const ImageView pixels, decoder.Decode(PixelFormat::kRgb, crop,
//   image));
class ImageDecoder {
 public:
  // Reads the header of `file`, which must stay valid until Decode has returned; of a JPEG also the
  // marker structure to its end. Sample errors: CORRUPT_IMAGE, TRUNCATED_IMAGE, UNSUPPORTED_IMAGE,
  // and IMAGE_TOO_LARGE when the header says more than `max_pixels`, before anything is allocated.
  absl::StatusOr<ImageSize> Open(absl::string_view file, uint64_t max_pixels);

  // Decodes the opened file, once, and returns the pixels under `rect` as a view into `buffer`:
  // exactly those of a decode of the whole image. Damage below the last row of `rect` is not
  // noticed in a JPEG (beyond what Open checks); other formats are decoded to their end. Sample
  // errors: as Open. PLUGIN_MISSING, not a sample error, where the plugin is needed and absent.
  // Throws std::bad_alloc when memory is refused.
  absl::StatusOr<ImageView> Decode(PixelFormat format, const Rect& rect, Image& buffer);

  // Decode takes what it will need from `share`, which outlives this, and so may wait; null: from
  // nobody.
  void SetShare(DecodeShare* share) { share_ = share; }
  // What decoding the opened file for `rect` takes: the pixels, and what the codec itself holds of
  // the whole image meanwhile.
  uint64_t PlannedBytes(PixelFormat format, const Rect& rect) const;

 private:
  absl::string_view file_;
  ImageFormat format_ = ImageFormat::kUnknown;
  uint64_t max_pixels_ = 0;
  ImageSize size_;
  JpegDecoder jpeg_;
  DecodeShare* share_ = nullptr;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_IMAGE_IMAGE_DECODER_H_
