#include "server/image/codecs/png_decoder.h"

#include <spng.h>

#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/image/color/luma.h"
#include "server/image/image_error.h"

namespace bulkhead {
namespace {

// Bound of one chunk, and of all kept chunks together, in bytes: text and profiles may be
// compressed bombs.
constexpr size_t kMaxChunkBytes = size_t{8} << 20;

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, FreeContext>;

absl::Status ToStatus(int code) {
  switch (code) {
    case 0:
      return absl::OkStatus();
    case SPNG_EMEM:
    case SPNG_EZLIB_INIT:
      throw std::bad_alloc();
    case SPNG_EOF:
    case SPNG_EIO:
      return SampleError(reason::kTruncatedImage,
                         "this PNG ends before its last chunk; copy the file again");
    default:
      return SampleError(
          reason::kCorruptImage,
          absl::StrCat("this PNG is damaged (", spng_strerror(code), "); replace the file"));
  }
}

absl::StatusOr<Context> OpenPng(absl::string_view file, uint64_t max_pixels, spng_ihdr& header) {
  Context context(spng_ctx_new(0));
  if (context == nullptr) throw std::bad_alloc();
  spng_set_crc_action(context.get(), SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
  spng_set_chunk_limits(context.get(), kMaxChunkBytes, kMaxChunkBytes);
  BULKHEAD_RETURN_IF_ERROR(ToStatus(spng_set_png_buffer(context.get(), file.data(), file.size())));
  BULKHEAD_RETURN_IF_ERROR(ToStatus(spng_get_ihdr(context.get(), &header)));
  BULKHEAD_RETURN_IF_ERROR(CheckImageSize("PNG", header.width, header.height, max_pixels));
  return context;
}

constexpr int kDeepRgbaBytes = 8;

// One RGBA pixel of uint16 to one of another format, which may be the same memory.
void PackDeepPixel(const uint8_t* rgba, PixelFormat format, uint8_t* out) {
  uint16_t in[4];
  std::memcpy(in, rgba, sizeof(in));
  if (format == PixelFormat::kGray) {
    // A gray image comes as three equal channels, whose weighted sum is their value.
    const uint32_t sum = static_cast<uint32_t>(kLibpngLuma.red) * in[0] +
                         static_cast<uint32_t>(kLibpngLuma.green) * in[1] +
                         static_cast<uint32_t>(kLibpngLuma.blue) * in[2];
    const auto gray = static_cast<uint16_t>(sum >> 15);
    std::memcpy(out, &gray, sizeof(gray));
    return;
  }
  if (format == PixelFormat::kBgr) std::swap(in[0], in[2]);
  std::memcpy(out, in, 3 * sizeof(uint16_t));
}

}  // namespace

absl::StatusOr<ImageSize> ReadPngSize(absl::string_view file, uint64_t max_pixels) {
  spng_ihdr header{};
  BULKHEAD_ASSIGN_OR_RETURN(const Context context, OpenPng(file, max_pixels, header));
  return ImageSize{static_cast<int>(header.height), static_cast<int>(header.width)};
}

absl::StatusOr<ImageView> DecodePng(absl::string_view file, uint64_t max_pixels, PixelFormat format,
                                    Image& buffer) {
  spng_ihdr header{};
  BULKHEAD_ASSIGN_OR_RETURN(const Context context, OpenPng(file, max_pixels, header));
  const ImageSize size{static_cast<int>(header.height), static_cast<int>(header.width)};
  const bool alpha = format == PixelFormat::kRgba;
  const int channels = alpha ? 4 : 3;
  const MutableImageView image = buffer.Reshape(size, channels);
  BULKHEAD_RETURN_IF_ERROR(ToStatus(
      spng_decode_image(context.get(), image.data, image.stride * image.height,
                        alpha ? SPNG_FMT_RGBA8 : SPNG_FMT_RGB8, alpha ? SPNG_DECODE_TRNS : 0)));
  BULKHEAD_RETURN_IF_ERROR(ToStatus(spng_decode_chunks(context.get())));
  if (format == PixelFormat::kBgr) SwapRedAndBlue(image);
  if (format != PixelFormat::kGray) return ImageView(image);
  // In place: a gray pixel never lies behind the colour pixel it comes from.
  const MutableImageView gray = ContiguousImage(image.data, size, 1);
  // A gray image comes as three equal channels, whose weighted sum is their value.
  RgbToGray(image, kLibpngLuma, gray);
  return ImageView(gray);
}

absl::StatusOr<ImageView> DecodeDeepPng(absl::string_view file, uint64_t max_pixels,
                                        PixelFormat format, Image& buffer) {
  spng_ihdr header{};
  BULKHEAD_ASSIGN_OR_RETURN(const Context context, OpenPng(file, max_pixels, header));
  const ImageSize size{static_cast<int>(header.height), static_cast<int>(header.width)};
  const bool alpha = format == PixelFormat::kRgba;
  const MutableImageView rgba = buffer.Reshape(size, kDeepRgbaBytes);
  BULKHEAD_RETURN_IF_ERROR(
      ToStatus(spng_decode_image(context.get(), rgba.data, rgba.stride * rgba.height,
                                 SPNG_FMT_RGBA16, alpha ? SPNG_DECODE_TRNS : 0)));
  BULKHEAD_RETURN_IF_ERROR(ToStatus(spng_decode_chunks(context.get())));
  if (alpha) return ImageView(rgba);
  // In place: a narrower pixel never lies behind the one it comes from.
  const MutableImageView packed = ContiguousImage(rgba.data, size, 2 * ChannelCount(format));
  const size_t pixels = static_cast<size_t>(size.height) * size.width;
  for (size_t i = 0; i < pixels; ++i) {
    PackDeepPixel(rgba.data + i * kDeepRgbaBytes, format, packed.data + i * packed.channels);
  }
  return ImageView(packed);
}

}  // namespace bulkhead
