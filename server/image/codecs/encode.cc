#include "server/image/codecs/encode.h"

#include <spng.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/image/codecs/jpeg_error.h"

namespace bulkhead {
namespace {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

absl::Status EncodingFailed(absl::string_view format, absl::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kUnsupportedImage,
                   absl::StrCat("an image cannot be written as ", format, ": ", why));
}

// Collects what libjpeg writes. A refusal of memory inside these callbacks ends the process: an
// exception cannot cross libjpeg.
struct StringDestination {
  jpeg_destination_mgr base;  // first: libjpeg's pointer to it is a pointer to this object
  std::string file;
  JOCTET chunk[16384];

  static StringDestination* Of(j_compress_ptr info) {
    return reinterpret_cast<StringDestination*>(info->dest);
  }
  static void Start(j_compress_ptr info) {
    StringDestination* self = Of(info);
    self->base.next_output_byte = self->chunk;
    self->base.free_in_buffer = sizeof(self->chunk);
  }
  // libjpeg asks for this when the chunk is full, whatever free_in_buffer says then.
  static boolean Flush(j_compress_ptr info) noexcept {
    StringDestination* self = Of(info);
    self->file.append(reinterpret_cast<const char*>(self->chunk), sizeof(self->chunk));
    Start(info);
    return TRUE;
  }
  static void Finish(j_compress_ptr info) noexcept {
    StringDestination* self = Of(info);
    self->file.append(reinterpret_cast<const char*>(self->chunk),
                      sizeof(self->chunk) - self->base.free_in_buffer);
  }
};

// All libjpeg calls of an encoding; for JpegErrorManager::Run.
void WriteJpeg(jpeg_compress_struct& info, const ImageView& image, const JpegEncodeOptions& options,
               StringDestination& destination) {
  jpeg_create_compress(&info);
  destination.base.init_destination = &StringDestination::Start;
  destination.base.empty_output_buffer = &StringDestination::Flush;
  destination.base.term_destination = &StringDestination::Finish;
  info.dest = &destination.base;
  info.image_width = image.width;
  info.image_height = image.height;
  info.input_components = image.channels;
  info.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  info.dct_method = JDCT_ISLOW;
  if (image.channels == 3) {
    info.comp_info[0].h_samp_factor = options.chroma_width_divisor;
    info.comp_info[0].v_samp_factor = options.chroma_height_divisor;
  }
  info.restart_interval = options.restart_interval;
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.row(static_cast<int>(info.next_scanline)));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
}

}  // namespace

absl::StatusOr<std::string> EncodeJpeg(const ImageView& image, const JpegEncodeOptions& options) {
  jpeg_compress_struct info{};
  JpegErrorManager errors;
  info.err = errors.Install(/*fail_on_warnings=*/false);
  StringDestination destination;
  const bool written = errors.Run([&] { WriteJpeg(info, image, options, destination); });
  jpeg_destroy_compress(&info);
  if (!written) {
    errors.ToStatus().IgnoreError();  // throws when memory was refused
    return EncodingFailed("JPEG", errors.message());
  }
  return std::move(destination.file);
}

absl::StatusOr<std::string> EncodePng(const ImageView& image) {
  struct FreeContext {
    void operator()(spng_ctx* context) const { spng_ctx_free(context); }
  };
  const std::unique_ptr<spng_ctx, FreeContext> context(spng_ctx_new(SPNG_CTX_ENCODER));
  if (context == nullptr) throw std::bad_alloc();
  spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.width = image.width;
  header.height = image.height;
  header.bit_depth = 8;
  header.color_type = image.channels == 1   ? SPNG_COLOR_TYPE_GRAYSCALE
                      : image.channels == 3 ? SPNG_COLOR_TYPE_TRUECOLOR
                                            : SPNG_COLOR_TYPE_TRUECOLOR_ALPHA;
  std::vector<uint8_t> pixels;
  pixels.reserve(image.row_bytes() * image.height);
  for (int y = 0; y < image.height; ++y) {
    pixels.insert(pixels.end(), image.row(y), image.row(y) + image.row_bytes());
  }
  int code = spng_set_ihdr(context.get(), &header);
  if (code == 0) {
    code = spng_encode_image(context.get(), pixels.data(), pixels.size(), SPNG_FMT_PNG,
                             SPNG_ENCODE_FINALIZE);
  }
  size_t size = 0;
  std::unique_ptr<void, FreeMemory> memory;
  if (code == 0) memory.reset(spng_get_png_buffer(context.get(), &size, &code));
  if (code == SPNG_EMEM) throw std::bad_alloc();
  if (code != 0) return EncodingFailed("PNG", spng_strerror(code));
  return std::string(static_cast<const char*>(memory.get()), size);
}

}  // namespace bulkhead
