#include "server/image/codecs/image_format.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "server/base/error.h"
#include "server/image/codecs/bmp_header.h"
#include "server/image/codecs/pnm_header.h"
#include "server/image/codecs/tiff_header.h"

namespace bulkhead {

ImageFormat SniffFormat(absl::string_view file) {
  using absl::StartsWith;
  if (StartsWith(file, "\xFF\xD8")) return ImageFormat::kJpeg;
  if (StartsWith(file, "\x89PNG\r\n\x1A\n")) return ImageFormat::kPng;
  if (file.size() >= 12 && StartsWith(file, "RIFF") && file.substr(8, 4) == "WEBP") {
    return ImageFormat::kWebp;
  }
  if (StartsWith(file, "BM")) return ImageFormat::kBmp;
  if (StartsWith(file, "GIF8")) return ImageFormat::kGif;
  if (StartsWith(file, absl::string_view("II*\0", 4)) ||
      StartsWith(file, absl::string_view("MM\0*", 4))) {
    return ImageFormat::kTiff;
  }
  if (file.size() >= 3 && file[0] == 'P' && file[1] >= '1' && file[1] <= '6' &&
      absl::ascii_isspace(file[2])) {
    return ImageFormat::kPnm;
  }
  return ImageFormat::kUnknown;
}

absl::StatusOr<RareHeader> ReadRareHeader(ImageFormat format, absl::string_view file,
                                          uint64_t max_pixels) {
  switch (format) {
    case ImageFormat::kBmp:
      return ReadBmpHeader(file, max_pixels);
    case ImageFormat::kTiff:
      return ReadTiffHeader(file, max_pixels);
    case ImageFormat::kPnm:
      return ReadPnmHeader(file, max_pixels);
    default:
      return SampleError(reason::kUnsupportedImage,
                         "images of this format are not decoded; convert them to JPEG or PNG");
  }
}

}  // namespace bulkhead
