#include "tools/inspect/image_header.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/codecs/image_decoder.h"
#include "server/os/files/filesystem.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/stage_signature.h"

namespace bulkhead::tools {
namespace {

// More than any header has before the size of its image.
constexpr size_t kMostImageBytes = size_t{64} << 20;

uint8_t ByteAt(absl::string_view file, size_t at) {
  return at < file.size() ? static_cast<uint8_t>(file[at]) : 0;
}

// The components of the frame, by the JPEG file's first frame header (ITU-T T.81, B.2.2); 0: none
// was found.
int JpegChannels(absl::string_view file) {
  for (size_t at = 2; at + 9 < file.size() && ByteAt(file, at) == 0xff;) {
    const uint8_t marker = ByteAt(file, at + 1);
    const bool is_frame =
        marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (is_frame) return ByteAt(file, at + 9);
    if (marker == 0xda) return 0;
    at += marker == 0xff ? 1 : 2 + 256 * ByteAt(file, at + 2) + ByteAt(file, at + 3);
  }
  return 0;
}

// By the colour type of the PNG file's header (RFC 2083, 4.1.1), whose palettes hold colours.
int PngChannels(absl::string_view file) {
  constexpr int kChannels[] = {1, 0, 3, 3, 2, 0, 4};
  const uint8_t type = ByteAt(file, 25);
  return type < 7 ? kChannels[type] : 0;
}

// 0: not told.
int Channels(ImageFormat format, absl::string_view file) {
  if (format == ImageFormat::kJpeg) return JpegChannels(file);
  if (format == ImageFormat::kPng) return PngChannels(file);
  if (format != ImageFormat::kPnm) return 0;
  return ByteAt(file, 1) == '3' || ByteAt(file, 1) == '6' ? 3 : 1;
}

}  // namespace

const std::set<std::string>& UsualExtensions() {
  static const auto* const extensions = [] {
    v1::PipelineSpec spec;
    spec.mutable_source()->mutable_image_folder()->set_path(".");
    Normalize(spec).IgnoreError();
    const auto& known = spec.source().image_folder().extensions();
    return new std::set<std::string>(known.begin(), known.end());
  }();
  return *extensions;
}

const char* FormatName(ImageFormat format) {
  constexpr std::array<const char*, 8> kNames = {"unknown", "JPEG", "PNG", "WebP", "BMP",
                                                 "TIFF",    "PNM",  "GIF"};  // by ImageFormat
  return kNames[static_cast<size_t>(format)];
}

std::string ImageText(absl::string_view file) {
  const ImageFormat format = SniffFormat(file);
  if (format == ImageFormat::kUnknown) return "";
  std::string text = FormatName(format);
  ImageDecoder decoder;
  const auto size = decoder.Open(file, kDefaultMaxPixels);
  if (!size.ok()) return absl::StrCat(text, " (", size.status().message(), ")");
  absl::StrAppend(&text, " ", size->width, " x ", size->height);
  const int channels = Channels(format, file);
  return channels == 0 ? text : absl::StrCat(text, " x ", channels);
}

std::string ImageText(const absl::StatusOr<std::string>& file) {
  if (absl::IsNotFound(file.status())) return "no file";
  if (!file.ok()) return std::string(file.status().message());
  const std::string text = ImageText(absl::string_view(*file));
  return text.empty() ? "no image" : text;
}

absl::StatusOr<std::string> ReadImageHead(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return absl::NotFoundError(error ? error.message() : "is not a regular file");
  }
  const uint64_t size = std::filesystem::file_size(path, error);
  return ReadPrefix(path, std::min<uint64_t>(size, kMostImageBytes));
}

}  // namespace bulkhead::tools
