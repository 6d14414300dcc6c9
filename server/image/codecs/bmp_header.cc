#include "server/image/codecs/bmp_header.h"

#include <algorithm>

#include "server/image/image_error.h"

namespace bulkhead {
namespace {

constexpr uint64_t kFileHeaderBytes = 14;
constexpr uint64_t kOldHeaderBytes = 12;  // OS/2's, with a size of 16 bits
// Where the colour masks stand, behind or in the header: red, green, blue, and in some alpha.
constexpr uint64_t kMasksAt = 54;
constexpr uint64_t kThreeMasksBytes = 12;
constexpr uint64_t kUncompressed = 0;
constexpr uint64_t kBitFields = 3;
// OpenCV decodes to four channels where it is asked for them.
constexpr uint64_t kWorkBytesPerPixel = 4;

struct Bmp {
  uint64_t header_bytes = 0;
  uint64_t pixels_at = 0;
  uint64_t width = 0;
  uint64_t height = 0;
  uint64_t bits = 0;
  uint64_t compression = kUncompressed;
  uint64_t colors = 0;  // in the palette

  uint64_t row_bytes() const { return (width * bits + 31) / 32 * 4; }
};

Bmp ReadFields(ByteReader& reader) {
  Bmp bmp;
  bmp.pixels_at = reader.Unsigned(10, 4);
  bmp.header_bytes = reader.Unsigned(14, 4);
  const bool old_header = bmp.header_bytes == kOldHeaderBytes;
  const int bytes = old_header ? 2 : 4;
  bmp.width = reader.Unsigned(18, bytes);
  bmp.height = reader.Unsigned(18 + bytes, bytes);
  // Negative: the rows stand top down.
  if (!old_header && bmp.height > 0x7fffffff) bmp.height = (uint64_t{1} << 32) - bmp.height;
  bmp.bits = reader.Unsigned(old_header ? 24 : 28, 2);
  if (!old_header) {
    bmp.compression = reader.Unsigned(30, 4);
    bmp.colors = reader.Unsigned(46, 4);
  }
  if (bmp.bits > 8) bmp.colors = 0;
  if (bmp.bits <= 8 && bmp.colors == 0) bmp.colors = uint64_t{1} << bmp.bits;
  return bmp;
}

bool IsKnownHeader(uint64_t bytes) {
  constexpr uint64_t kKnown[] = {kOldHeaderBytes, 40, 64, 108, 124};
  return std::find(std::begin(kKnown), std::end(kKnown), bytes) != std::end(kKnown);
}

// Whether the masks say what OpenCV takes for granted: bytes in the order blue, green, red, alpha.
bool MasksAreOfBytes(const Bmp& bmp, ByteReader& reader) {
  const uint64_t alpha =
      bmp.header_bytes > 40 ? reader.Unsigned(kMasksAt + kThreeMasksBytes, 4) : 0;
  return reader.Unsigned(kMasksAt, 4) == 0xff0000 && reader.Unsigned(kMasksAt + 4, 4) == 0xff00 &&
         reader.Unsigned(kMasksAt + 8, 4) == 0xff && (alpha == 0 || alpha == 0xff000000);
}

absl::Status CheckKind(const Bmp& bmp, ByteReader& reader) {
  constexpr uint64_t kPlainBits[] = {1, 4, 8, 24, 32};
  if (!IsKnownHeader(bmp.header_bytes)) {
    return UnsupportedRareImage("BMP", absl::StrCat("a header of ", bmp.header_bytes, " bytes"));
  }
  if (bmp.compression == kBitFields && bmp.bits == 32 && bmp.header_bytes != 64) {
    if (MasksAreOfBytes(bmp, reader)) return absl::OkStatus();
    return UnsupportedRareImage("BMP", "colour masks other than those of BGR bytes");
  }
  if (bmp.compression != kUncompressed) {
    return UnsupportedRareImage("BMP", absl::StrCat("compression ", bmp.compression));
  }
  if (std::find(std::begin(kPlainBits), std::end(kPlainBits), bmp.bits) == std::end(kPlainBits)) {
    return UnsupportedRareImage("BMP", absl::StrCat(bmp.bits, " bits a pixel"));
  }
  return absl::OkStatus();
}

// Whether every pixel is a colour of the palette, of which there are fewer than the bits can say.
bool PixelsAreOfPalette(const Bmp& bmp, absl::string_view file) {
  const int bits = static_cast<int>(bmp.bits);
  for (uint64_t y = 0; y < bmp.height; ++y) {
    const char* row = file.data() + bmp.pixels_at + y * bmp.row_bytes();
    for (uint64_t x = 0; x < bmp.width; ++x) {
      const int shift = 8 - bits - static_cast<int>(x * bmp.bits % 8);
      const unsigned index = static_cast<uint8_t>(row[x * bmp.bits / 8]) >> shift;
      if ((index & ((1u << bits) - 1)) >= bmp.colors) return false;
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<RareHeader> ReadBmpHeader(absl::string_view file, uint64_t max_pixels) {
  ByteReader reader(file, /*big_endian=*/false);
  const Bmp bmp = ReadFields(reader);
  if (reader.overrun()) return TruncatedRareImage("BMP");
  BULKHEAD_RETURN_IF_ERROR(CheckImageSize("BMP", bmp.width, bmp.height, max_pixels));
  BULKHEAD_RETURN_IF_ERROR(CheckKind(bmp, reader));
  const uint64_t most_colors = bmp.bits <= 8 ? uint64_t{1} << bmp.bits : 0;
  if (bmp.colors > most_colors) {
    return CorruptRareImage("BMP", absl::StrCat("says ", bmp.colors, " colours, more than ",
                                                bmp.bits, " bits can name"));
  }
  const uint64_t color_bytes = bmp.header_bytes == kOldHeaderBytes ? 3 : 4;
  const bool masks_behind = bmp.compression == kBitFields && bmp.header_bytes == 40;
  const uint64_t header_end = kFileHeaderBytes + bmp.header_bytes + bmp.colors * color_bytes +
                              (masks_behind ? kThreeMasksBytes : 0);
  if (bmp.pixels_at < header_end) return CorruptRareImage("BMP", "says that pixels stand in it");
  if (reader.overrun() || !reader.Has(bmp.pixels_at, bmp.row_bytes() * bmp.height)) {
    return TruncatedRareImage("BMP");
  }
  if (bmp.colors < most_colors && !PixelsAreOfPalette(bmp, file)) {
    return CorruptRareImage("BMP", "has fewer colours than its pixels name");
  }
  return RareHeader{{static_cast<int>(bmp.height), static_cast<int>(bmp.width)},
                    bmp.width * bmp.height * kWorkBytesPerPixel};
}

}  // namespace bulkhead
