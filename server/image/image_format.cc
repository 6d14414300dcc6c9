#include "server/image/image_format.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/image/image_error.h"

namespace bulkhead {
namespace {

// Tags of a TIFF directory (TIFF 6.0, section 8).
constexpr uint64_t kTiffWidth = 256;
constexpr uint64_t kTiffLength = 257;
constexpr uint64_t kTiffShort = 3;
constexpr uint64_t kTiffEntryBytes = 12;

absl::Status Truncated(absl::string_view format) {
  return SampleError(reason::kTruncatedImage,
                     absl::StrCat("this ", format, " ends inside its header; copy the file again"));
}

absl::Status Corrupt(absl::string_view format, absl::string_view what) {
  return SampleError(reason::kCorruptImage,
                     absl::StrCat("the header of this ", format, " ", what, "; replace the file"));
}

// Reads integers of either byte order; a read past the end gives 0 and is remembered.
class Reader {
 public:
  Reader(absl::string_view bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  uint64_t Unsigned(uint64_t offset, int size) {
    if (offset > bytes_.size() || bytes_.size() - offset < static_cast<size_t>(size)) {
      overrun_ = true;
      return 0;
    }
    uint64_t value = 0;
    for (int i = 0; i < size; ++i) {
      const int at = big_endian_ ? i : size - 1 - i;
      value = value << 8 | static_cast<uint8_t>(bytes_[offset + at]);
    }
    return value;
  }
  bool overrun() const { return overrun_; }

 private:
  absl::string_view bytes_;
  bool big_endian_;
  bool overrun_ = false;
};

absl::StatusOr<ImageSize> Checked(absl::string_view format, uint64_t width, uint64_t height,
                                  uint64_t max_pixels) {
  BULKHEAD_RETURN_IF_ERROR(CheckImageSize(format, width, height, max_pixels));
  return ImageSize{static_cast<int>(height), static_cast<int>(width)};
}

absl::StatusOr<ImageSize> ReadBmpSize(absl::string_view file, uint64_t max_pixels) {
  Reader reader(file, /*big_endian=*/false);
  const bool old_header = reader.Unsigned(14, 4) == 12;
  const int bytes = old_header ? 2 : 4;
  const uint64_t width = reader.Unsigned(18, bytes);
  uint64_t height = reader.Unsigned(18 + bytes, bytes);
  // Negative: the rows stand top down.
  if (!old_header && height > 0x7fffffff) height = (uint64_t{1} << 32) - height;
  if (reader.overrun()) return Truncated("BMP");
  return Checked("BMP", width, height, max_pixels);
}

absl::StatusOr<ImageSize> ReadTiffSize(absl::string_view file, uint64_t max_pixels) {
  Reader reader(file, /*big_endian=*/file[0] == 'M');
  const uint64_t directory = reader.Unsigned(4, 4);
  const uint64_t entries = reader.Unsigned(directory, 2);
  uint64_t width = 0;
  uint64_t height = 0;
  for (uint64_t i = 0; i < entries && !reader.overrun(); ++i) {
    const uint64_t entry = directory + 2 + i * kTiffEntryBytes;
    const uint64_t tag = reader.Unsigned(entry, 2);
    if (tag != kTiffWidth && tag != kTiffLength) continue;
    const int bytes = reader.Unsigned(entry + 2, 2) == kTiffShort ? 2 : 4;
    (tag == kTiffWidth ? width : height) = reader.Unsigned(entry + 8, bytes);
  }
  if (reader.overrun()) return Truncated("TIFF");
  return Checked("TIFF", width, height, max_pixels);
}

// "P6 # comment 640 480 255": white space and comments, then numbers.
absl::StatusOr<ImageSize> ReadPnmSize(absl::string_view file, uint64_t max_pixels) {
  size_t at = 2;
  uint64_t numbers[2] = {0, 0};
  for (uint64_t& number : numbers) {
    while (at < file.size() && (absl::ascii_isspace(file[at]) || file[at] == '#')) {
      if (file[at] == '#') {
        while (at < file.size() && file[at] != '\n') ++at;
      } else {
        ++at;
      }
    }
    if (at >= file.size()) return Truncated("PNM");
    if (!absl::ascii_isdigit(file[at])) return Corrupt("PNM", "has no size");
    for (; at < file.size() && absl::ascii_isdigit(file[at]); ++at) {
      number = number * 10 + (file[at] - '0');
      if (number > 0x7fffffff) return Corrupt("PNM", "says an impossible size");
    }
  }
  return Checked("PNM", numbers[0], numbers[1], max_pixels);
}

}  // namespace

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

absl::StatusOr<ImageSize> ReadRareSize(ImageFormat format, absl::string_view file,
                                       uint64_t max_pixels) {
  switch (format) {
    case ImageFormat::kBmp:
      return ReadBmpSize(file, max_pixels);
    case ImageFormat::kTiff:
      return ReadTiffSize(file, max_pixels);
    case ImageFormat::kPnm:
      return ReadPnmSize(file, max_pixels);
    default:
      return SampleError(reason::kUnsupportedImage,
                         "images of this format are not decoded; convert them to JPEG or PNG");
  }
}

}  // namespace bulkhead
