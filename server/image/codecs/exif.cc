#include "server/image/codecs/exif.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "server/image/codecs/rare_header.h"

namespace bulkhead {
namespace {

constexpr int kUpright = 1;
constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kShortType = 3;
constexpr size_t kEntryBytes = 12;
constexpr absl::string_view kExifHeader("Exif\0\0", 6);

// The orientation in a block of EXIF data, which is a TIFF file: header, then the first directory.
int OrientationOf(absl::string_view tiff) {
  if (tiff.size() < 8) return kUpright;
  const bool little = absl::StartsWith(tiff, absl::string_view("II*\0", 4));
  if (!little && !absl::StartsWith(tiff, absl::string_view("MM\0*", 4))) return kUpright;
  ByteReader reader(tiff, /*big_endian=*/!little);
  const size_t directory = reader.Unsigned(4, 4);
  if (directory > tiff.size() || tiff.size() - directory < 2) return kUpright;
  const size_t entries = reader.Unsigned(directory, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t at = directory + 2 + i * kEntryBytes;
    if (at + kEntryBytes > tiff.size()) return kUpright;
    if (reader.Unsigned(at, 2) != kOrientationTag) continue;
    const uint64_t value = reader.Unsigned(at + 8, 2);
    const bool valid = reader.Unsigned(at + 2, 2) == kShortType &&
                       reader.Unsigned(at + 4, 4) == 1 && value >= 1 && value <= 8;
    return valid ? static_cast<int>(value) : kUpright;
  }
  return kUpright;
}

absl::string_view JpegExif(absl::string_view file) {
  size_t at = 2;
  // Segments up to the first scan: FF, code, length with itself, data.
  while (file.size() - at >= 4 && file[at] == '\xFF') {
    const auto code = static_cast<uint8_t>(file[at + 1]);
    if (code == 0xFF) {  // a fill byte
      ++at;
      continue;
    }
    if (code == 0x01) {  // TEM has no length
      at += 2;
      continue;
    }
    const size_t length = ByteReader(file, /*big_endian=*/true).Unsigned(at + 2, 2);
    if (code == 0xDA || length < 2 || length > file.size() - at - 2) break;
    absl::string_view data = file.substr(at + 4, length - 2);
    if (code == 0xE1 && absl::ConsumePrefix(&data, kExifHeader)) return data;
    at += 2 + length;
  }
  return {};
}

absl::string_view PngExif(absl::string_view file) {
  size_t at = 8;
  // Chunks: length, type, data, checksum.
  while (at <= file.size() && file.size() - at >= 12) {
    const size_t length = ByteReader(file, /*big_endian=*/true).Unsigned(at, 4);
    const absl::string_view type = file.substr(at + 4, 4);
    if (type == "IDAT" || length > file.size() - at - 12) break;
    if (type == "eXIf") return file.substr(at + 8, length);
    at += 12 + length;
  }
  return {};
}

absl::string_view WebpExif(absl::string_view file) {
  size_t at = 12;
  // Chunks: type, length, data, and a byte more where the length is odd.
  while (at <= file.size() && file.size() - at >= 8) {
    const size_t length = ByteReader(file, /*big_endian=*/false).Unsigned(at + 4, 4);
    if (length > file.size() - at - 8) break;
    if (file.substr(at, 4) == "EXIF") {
      absl::string_view data = file.substr(at + 8, length);
      absl::ConsumePrefix(&data, kExifHeader);  // which some writers leave in
      return data;
    }
    at += 8 + length + length % 2;
  }
  return {};
}

}  // namespace

int ReadOrientation(ImageFormat format, absl::string_view file) {
  switch (format) {
    case ImageFormat::kJpeg:
      return OrientationOf(file.size() < 2 ? absl::string_view() : JpegExif(file));
    case ImageFormat::kPng:
      return OrientationOf(PngExif(file));
    case ImageFormat::kWebp:
      return OrientationOf(WebpExif(file));
    default:
      return kUpright;
  }
}

}  // namespace bulkhead
