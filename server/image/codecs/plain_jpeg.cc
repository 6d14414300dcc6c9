#include "server/image/codecs/plain_jpeg.h"

#include "server/image/codecs/jpeg_error.h"

namespace bulkhead {

struct PlainJpegDecoder::Codec {
  jpeg_decompress_struct info;
  JpegErrorManager errors;
  Image image;
};

PlainJpegDecoder::PlainJpegDecoder() : codec_(std::make_unique<Codec>()) {
  codec_->info.err = codec_->errors.Install(/*fail_on_warnings=*/false);
  Codec* codec = codec_.get();
  if (!codec->errors.Run([codec] { jpeg_create_decompress(&codec->info); })) {
    codec->errors.ToStatus().IgnoreError();  // throws: only refused memory can end this
  }
}

PlainJpegDecoder::~PlainJpegDecoder() { jpeg_destroy_decompress(&codec_->info); }

absl::StatusOr<ImageView> PlainJpegDecoder::Decode(absl::string_view file) {
  Codec* codec = codec_.get();
  jpeg_decompress_struct& info = codec->info;
  jpeg_abort_decompress(&info);
  const bool started = codec->errors.Run([&] {
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&info, TRUE);
    info.out_color_space = info.num_components == 4 ? JCS_CMYK : JCS_EXT_RGB;
    jpeg_start_decompress(&info);
  });
  if (!started) return codec->errors.ToStatus();
  const MutableImageView image = codec->image.Reshape(
      {static_cast<int>(info.output_height), static_cast<int>(info.output_width)},
      info.output_components);
  const bool read = codec->errors.Run([&] {
    while (info.output_scanline < info.output_height) {
      JSAMPROW rows[4];
      const int first = static_cast<int>(info.output_scanline);
      const int count = image.height - first < 4 ? image.height - first : 4;
      for (int i = 0; i < count; ++i) rows[i] = image.row(first + i);
      jpeg_read_scanlines(&info, rows, count);
    }
    jpeg_finish_decompress(&info);
  });
  if (!read) return codec->errors.ToStatus();
  return ImageView(image);
}

}  // namespace bulkhead
