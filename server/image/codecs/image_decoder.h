#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/codecs/decode_allowance.h"
#include "server/image/codecs/decode_options.h"
#include "server/image/codecs/image_format.h"
#include "server/image/codecs/jpeg_decoder.h"
#include "server/image/image.h"
#include "server/image/pixel_format.h"

namespace bulkhead {

// The interface to all decoders. Finds the format by the file's first bytes; decodes JPEG by our
// decoder and libjpeg-turbo, PNG by libspng, WebP by libwebp, BMP, TIFF and PNM by OpenCV's codecs
// (a plugin). Every thread has one and uses it for all its files. EXIF orientation is reported, not
// applied. Not thread-safe.
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
  // and IMAGE_TOO_LARGE for more than `max_pixels` in the header, before anything is allocated. The
  // size is that of the decoded image, `options` applied.
  absl::StatusOr<ImageSize> Open(absl::string_view file, uint64_t max_pixels,
                                 const DecodeOptions& options = {}) {
    return OpenBytes(file, max_pixels, options, nullptr);
  }

  // The same for a file whose bytes are read only if they are needed: not those of a JPEG file of
  // which enough is kept. Errors: also those of FileBytes::Get, here and in Decode.
  absl::StatusOr<ImageSize> Open(FileBytes& file, uint64_t max_pixels,
                                 const DecodeOptions& options = {});

  // The orientation of the opened file (orientation.h).
  int Orientation() const;

  // Decodes the opened file, once, and returns the pixels under `rect` as a view into `buffer`:
  // exactly those of a decode of the whole image. Damage below the last row of `rect` is not
  // noticed in a JPEG (beyond what Open checks); other formats are decoded to their end. Sample
  // errors: as Open. PLUGIN_MISSING, not a sample error, where the plugin is needed and absent.
  // Throws std::bad_alloc when memory is refused.
  // `more_bytes`: memory that the caller will need besides the result, for the share.
  absl::StatusOr<ImageView> Decode(PixelFormat format, const Rect& rect, Image& buffer,
                                   uint64_t more_bytes = 0);

  // Decode reserves its memory in `share`, which outlives this, and so may wait; null: no
  // reservation.
  void SetShare(DecodeShare* share) { share_ = share; }
  // The memory for decoding the opened file for `rect`: the pixels, and the codec's own memory for
  // the whole image.
  uint64_t PlannedBytes(PixelFormat format, const Rect& rect) const;
  // JpegDecoder::SetStores, counts.
  void SetStores(const JpegDecoder::Stores& stores) { jpeg_.SetStores(stores); }
  KnownFiles& known_files() { return jpeg_.kept(); }
  const jpeg::DecodeCounts& jpeg_counts() const { return jpeg_.counts(); }
  // Decodes the opened file, once, as a whole, to 16 bits a channel, and returns a view into
  // `buffer` in which two bytes, a uint16 of this machine, stand for each channel. 8 bits become 16
  // by × 257. `bytes` is scratch. Errors: as Decode.
  absl::StatusOr<ImageView> DecodeDeep(PixelFormat format, Image& bytes, Image& buffer);

 private:
  // `source`: where `file` comes from; may be null.
  absl::StatusOr<ImageSize> OpenBytes(absl::string_view file, uint64_t max_pixels,
                                      const DecodeOptions& options, FileBytes* source);

  absl::string_view file_;  // empty if it was not read:
  int orientation_ = 1;     // what was noted of it
  ImageFormat format_ = ImageFormat::kUnknown;
  uint64_t max_pixels_ = 0;
  ImageSize size_;
  uint64_t work_bytes_ = 0;  // the codec's memory besides the result, except for JPEG
  JpegDecoder jpeg_;
  DecodeShare* share_ = nullptr;
};

}  // namespace bulkhead
