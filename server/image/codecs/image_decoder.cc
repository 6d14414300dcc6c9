#include "server/image/codecs/image_decoder.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/image/codecs/exif.h"
#include "server/image/codecs/imgcodecs_plugin.h"
#include "server/image/codecs/png_decoder.h"
#include "server/image/codecs/webp_decoder.h"

namespace bulkhead {
namespace {

// What libwebp holds of each pixel beside the result: the colours of a lossless image (of a lossy
// one it holds some rows).
constexpr uint64_t kWebpBytesPerPixel = 4;
// Of an image decoded to 16 bits a channel: four channels, whatever is asked for.
constexpr uint64_t kDeepBytesPerPixel = 8;

uint64_t PixelCount(ImageSize size) {
  return static_cast<uint64_t>(size.height) * static_cast<uint64_t>(size.width);
}

// How a text begins, such as a web page that was saved as an image; empty: it is no text.
absl::string_view BeginOfText(absl::string_view file) {
  constexpr size_t kMost = 40;
  const absl::string_view line = absl::StripLeadingAsciiWhitespace(file.substr(0, 2 * kMost));
  const absl::string_view begin = line.substr(0, std::min(line.find_first_of("\r\n"), kMost));
  return std::all_of(begin.begin(), begin.end(), absl::ascii_isprint) ? begin : "";
}

absl::Status UnknownFormat(absl::string_view file) {
  if (file.empty()) {
    return SampleError(reason::kTruncatedImage, "the image is empty (0 bytes); copy it again");
  }
  if (const absl::string_view text = BeginOfText(file); !text.empty()) {
    return SampleError(reason::kUnsupportedImage,
                       absl::StrCat("this is a text, such as a web page, and no image; it begins "
                                    "with `",
                                    text, "`; get the image again"));
  }
  return SampleError(reason::kUnsupportedImage,
                     "the first bytes are those of no image format that is decoded; JPEG, PNG, "
                     "WebP, BMP, TIFF and PNM are");
}

absl::StatusOr<ImageView> DecodeRare(absl::string_view file, PixelFormat format, Image& buffer) {
  BULKHEAD_ASSIGN_OR_RETURN(const ImgcodecsPlugin* plugin, ImgcodecsPlugin::Load());
  return plugin->Decode(file, format, buffer);
}

}  // namespace

absl::StatusOr<ImageSize> ImageDecoder::OpenBytes(absl::string_view file, uint64_t max_pixels,
                                                  const DecodeOptions& options, FileBytes* source) {
  file_ = file;
  max_pixels_ = max_pixels;
  format_ = SniffFormat(file);
  work_bytes_ = 0;
  if (format_ == ImageFormat::kUnknown) return UnknownFormat(file);
  if (format_ == ImageFormat::kJpeg) {  // which plans for itself
    BULKHEAD_ASSIGN_OR_RETURN(size_, jpeg_.Open(file, max_pixels, options, source));
  } else if (format_ == ImageFormat::kPng) {
    BULKHEAD_ASSIGN_OR_RETURN(size_, ReadPngSize(file, max_pixels));
  } else if (format_ == ImageFormat::kWebp) {
    BULKHEAD_ASSIGN_OR_RETURN(size_, ReadWebpSize(file, max_pixels));
    work_bytes_ = PixelCount(size_) * kWebpBytesPerPixel;
  } else {
    BULKHEAD_ASSIGN_OR_RETURN(const RareHeader header, ReadRareHeader(format_, file, max_pixels));
    size_ = header.size;
    work_bytes_ = header.work_bytes;
  }
  return size_;
}

absl::StatusOr<ImageSize> ImageDecoder::Open(FileBytes& file, uint64_t max_pixels,
                                             const DecodeOptions& options) {
  if (const auto known = jpeg_.OpenUnread(file, max_pixels, options)) {
    file_ = {};
    format_ = ImageFormat::kJpeg;
    size_ = known->size;
    orientation_ = known->orientation;
    work_bytes_ = 0;
    return size_;
  }
  BULKHEAD_ASSIGN_OR_RETURN(const absl::string_view bytes, jpeg_.kept().Read(file));
  return OpenBytes(bytes, max_pixels, options, &file);
}

uint64_t ImageDecoder::PlannedBytes(PixelFormat format, const Rect& rect) const {
  if (format_ == ImageFormat::kJpeg) return jpeg_.PlannedBytes(format, rect);
  // Decoded as a whole, gray by way of colour.
  const auto channels = static_cast<uint64_t>(std::max(3, ChannelCount(format)));
  return work_bytes_ + PixelCount(size_) * channels;
}

int ImageDecoder::Orientation() const {
  return file_.empty() ? orientation_ : ReadOrientation(format_, file_);
}

absl::StatusOr<ImageView> ImageDecoder::DecodeDeep(PixelFormat format, Image& bytes,
                                                   Image& buffer) {
  const uint64_t pixels = PixelCount(size_);
  if (format_ == ImageFormat::kPng) {
    if (share_ != nullptr) share_->Take(pixels * kDeepBytesPerPixel);
    return DecodeDeepPng(file_, max_pixels_, format, buffer);
  }
  BULKHEAD_ASSIGN_OR_RETURN(const ImageView narrow, Decode(format, WholeImage(size_), bytes,
                                                           pixels * 2 * ChannelCount(format)));
  const MutableImageView wide = buffer.Reshape(size_, 2 * narrow.channels);
  for (int y = 0; y < narrow.height; ++y) {
    // A byte twice is the byte times 257, whichever end comes first.
    for (size_t i = 0; i < narrow.row_bytes(); ++i) {
      wide.row(y)[2 * i] = wide.row(y)[2 * i + 1] = narrow.row(y)[i];
    }
  }
  return ImageView(wide);
}

absl::StatusOr<ImageView> ImageDecoder::Decode(PixelFormat format, const Rect& rect, Image& buffer,
                                               uint64_t more_bytes) {
  if (share_ != nullptr) share_->Take(PlannedBytes(format, rect) + more_bytes);
  if (format_ == ImageFormat::kJpeg) return jpeg_.Decode(format, rect, buffer);
  absl::StatusOr<ImageView> image =
      format_ == ImageFormat::kPng    ? DecodePng(file_, max_pixels_, format, buffer)
      : format_ == ImageFormat::kWebp ? DecodeWebp(file_, max_pixels_, format, buffer)
                                      : DecodeRare(file_, format, buffer);
  if (!image.ok()) return image;
  if (image->size() != size_) {
    return SampleError(reason::kCorruptImage,
                       "the decoded image is not of the size that its header says");
  }
  return image->Crop(rect);
}

}  // namespace bulkhead
