#include "server/image/codecs/webp_decoder.h"

#include <webp/decode.h>

#include <new>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/image/color/luma.h"
#include "server/image/image_error.h"

namespace bulkhead {
namespace {

const uint8_t* Bytes(absl::string_view file) {
  return reinterpret_cast<const uint8_t*>(file.data());
}

absl::Status ToStatus(VP8StatusCode code) {
  switch (code) {
    case VP8_STATUS_OK:
      return absl::OkStatus();
    case VP8_STATUS_OUT_OF_MEMORY:
      throw std::bad_alloc();
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return SampleError(reason::kTruncatedImage,
                         "this WebP ends before its image data does; copy the file again");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return SampleError(reason::kUnsupportedImage,
                         "this WebP uses a feature that is not decoded; convert it to JPEG or PNG");
    default:
      return SampleError(reason::kCorruptImage,
                         absl::StrCat("this WebP is damaged (libwebp's status ",
                                      static_cast<int>(code), "); replace the file"));
  }
}

WEBP_CSP_MODE ModeFor(PixelFormat format) {
  return format == PixelFormat::kRgba  ? MODE_RGBA
         : format == PixelFormat::kBgr ? MODE_BGR
                                       : MODE_RGB;
}

}  // namespace

absl::StatusOr<ImageSize> ReadWebpSize(absl::string_view file, uint64_t max_pixels) {
  WebPBitstreamFeatures features;
  BULKHEAD_RETURN_IF_ERROR(ToStatus(WebPGetFeatures(Bytes(file), file.size(), &features)));
  if (features.has_animation) {
    return SampleError(reason::kUnsupportedImage,
                       "this WebP is an animation; extract the frame that is meant");
  }
  BULKHEAD_RETURN_IF_ERROR(CheckImageSize("WebP", features.width, features.height, max_pixels));
  return ImageSize{features.height, features.width};
}

absl::StatusOr<ImageView> DecodeWebp(absl::string_view file, uint64_t max_pixels,
                                     PixelFormat format, Image& buffer) {
  BULKHEAD_ASSIGN_OR_RETURN(const ImageSize size, ReadWebpSize(file, max_pixels));
  const MutableImageView image = buffer.Reshape(size, format == PixelFormat::kRgba ? 4 : 3);
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, reason::kInternal,
                     "libwebp is of another version than its headers; install matching packages");
  }
  config.output.colorspace = ModeFor(format);
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = image.data;
  config.output.u.RGBA.stride = static_cast<int>(image.stride);
  config.output.u.RGBA.size = image.stride * image.height;
  const VP8StatusCode code = WebPDecode(Bytes(file), file.size(), &config);
  WebPFreeDecBuffer(&config.output);
  BULKHEAD_RETURN_IF_ERROR(ToStatus(code));
  if (format != PixelFormat::kGray) return ImageView(image);
  // In place: a gray pixel never lies behind the colour pixel it comes from.
  const MutableImageView gray = ContiguousImage(image.data, size, 1);
  RgbToGray(image, kOpenCvLuma, gray);
  return ImageView(gray);
}

}  // namespace bulkhead
