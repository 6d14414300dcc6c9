#include "server/image/codecs/tiff_header.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <vector>

#include "server/image/image_error.h"

namespace bulkhead {
namespace {

// Tags of a directory, and some of their values (TIFF 6.0, section 8, and its supplements).
constexpr uint64_t kWidth = 256;
constexpr uint64_t kLength = 257;
constexpr uint64_t kBitsPerSample = 258;
constexpr uint64_t kCompression = 259;
constexpr uint64_t kPhotometric = 262;
constexpr uint64_t kFillOrder = 266;
constexpr uint64_t kStripOffsets = 273;
constexpr uint64_t kOrientation = 274;
constexpr uint64_t kSamplesPerPixel = 277;
constexpr uint64_t kRowsPerStrip = 278;
constexpr uint64_t kStripByteCounts = 279;
constexpr uint64_t kPlanarConfig = 284;
constexpr uint64_t kPredictor = 317;
constexpr uint64_t kColorMap = 320;
constexpr uint64_t kTileWidth = 322;
constexpr uint64_t kTileLength = 323;
constexpr uint64_t kTileOffsets = 324;
constexpr uint64_t kTileByteCounts = 325;
constexpr uint64_t kExtraSamples = 338;
constexpr uint64_t kSampleFormat = 339;

constexpr uint64_t kShort = 3;
constexpr uint64_t kLong = 4;
constexpr uint64_t kUncompressed = 1;
constexpr uint64_t kLzw = 5;
constexpr uint64_t kJpeg = 7;
constexpr uint64_t kDeflate = 8;
constexpr uint64_t kOldDeflate = 32946;
constexpr uint64_t kPackBits = 32773;
constexpr uint64_t kMinIsWhite = 0;
constexpr uint64_t kMinIsBlack = 1;
constexpr uint64_t kRgb = 2;
constexpr uint64_t kPalette = 3;
constexpr uint64_t kYcbcr = 6;
constexpr uint64_t kSeparatePlanes = 2;

constexpr uint64_t kEntryBytes = 12;
// libtiff gives pixels of four bytes.
constexpr uint64_t kRasterBytesPerPixel = 4;

bool IsOneOf(uint64_t value, std::initializer_list<uint64_t> values) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

absl::Status Corrupt(absl::string_view what) { return CorruptRareImage("TIFF", what); }
absl::Status Unsupported(absl::string_view what) { return UnsupportedRareImage("TIFF", what); }

// The first directory's entries; their values are looked at when they are asked for.
class Directory {
 public:
  static absl::StatusOr<Directory> Read(absl::string_view file) {
    Directory directory(file);
    ByteReader& reader = directory.reader_;
    const uint64_t start = reader.Unsigned(4, 4);
    const uint64_t count = reader.Unsigned(start, 2);
    for (uint64_t i = 0; i < count && !reader.overrun(); ++i) {
      const uint64_t at = start + 2 + i * kEntryBytes;
      const uint64_t tag = reader.Unsigned(at, 2);
      const Entry entry{reader.Unsigned(at + 2, 2), reader.Unsigned(at + 4, 4), at + 8};
      if (!directory.entries_.emplace(tag, entry).second) {
        return Corrupt(absl::StrCat("has tag ", tag, " twice"));
      }
    }
    if (reader.overrun()) return TruncatedRareImage("TIFF");
    return directory;
  }

  bool Has(uint64_t tag) const { return entries_.count(tag) > 0; }

  // All values of a tag of integers; none where it is missing.
  absl::StatusOr<std::vector<uint64_t>> Numbers(uint64_t tag) {
    std::vector<uint64_t> numbers;
    const auto found = entries_.find(tag);
    if (found == entries_.end()) return numbers;
    const Entry& entry = found->second;
    if (entry.type != kShort && entry.type != kLong) {
      return Corrupt(absl::StrCat("has no integers in tag ", tag));
    }
    const int bytes = entry.type == kShort ? 2 : 4;
    const bool inside = entry.count * bytes <= 4;
    const uint64_t at = inside ? entry.values_at : reader_.Unsigned(entry.values_at, 4);
    if (!reader_.Has(at, entry.count * bytes)) return TruncatedRareImage("TIFF");
    numbers.reserve(entry.count);
    for (uint64_t i = 0; i < entry.count; ++i) {
      numbers.push_back(reader_.Unsigned(at + i * bytes, bytes));
    }
    return numbers;
  }

  // The only value of a tag, or `otherwise`.
  absl::StatusOr<uint64_t> Number(uint64_t tag, uint64_t otherwise) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers, Numbers(tag));
    if (!Has(tag)) return otherwise;
    if (numbers.size() != 1) {
      return Corrupt(absl::StrCat("has ", numbers.size(), " values of tag ", tag));
    }
    return numbers[0];
  }

 private:
  struct Entry {
    uint64_t type = 0;
    uint64_t count = 0;
    uint64_t values_at = 0;  // of the values, or of where they stand
  };

  explicit Directory(absl::string_view file) : reader_(file, file[0] == 'M') {}

  ByteReader reader_;
  std::map<uint64_t, Entry> entries_;  // by tag
};

// How the pixels are stored.
struct Layout {
  uint64_t width = 0;
  uint64_t height = 0;
  uint64_t samples = 1;
  uint64_t bits = 1;
  uint64_t compression = kUncompressed;
  uint64_t photometric = 0;
  bool separate = false;  // each sample in a plane of its own
  bool tiled = false;
  uint64_t block_width = 0;  // of a strip or tile
  uint64_t block_height = 0;

  // Of one row of a block as it is when it is not compressed.
  uint64_t row_bytes() const { return (block_width * bits * (separate ? 1 : samples) + 7) / 8; }
};

// A tag with a value for each sample, all of them the same: that value, or `otherwise`.
absl::StatusOr<uint64_t> SameForAll(Directory& directory, uint64_t tag, uint64_t samples,
                                    uint64_t otherwise) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<uint64_t> values, directory.Numbers(tag));
  if (!directory.Has(tag)) return otherwise;
  if (values.size() != samples) {
    return Corrupt(absl::StrCat("has ", values.size(), " values of tag ", tag, " for ", samples,
                                " samples a pixel"));
  }
  const bool same = std::all_of(values.begin(), values.end(),
                                [&values](uint64_t value) { return value == values[0]; });
  if (!same) return Unsupported("samples of different kinds");
  return values[0];
}

absl::Status CheckColors(const Layout& layout, Directory& directory) {
  const bool gray = layout.photometric == kMinIsWhite || layout.photometric == kMinIsBlack;
  const bool color =
      layout.photometric == kRgb || (layout.photometric == kYcbcr && layout.compression == kJpeg);
  if (!gray && !color && layout.photometric != kPalette) {
    return Unsupported(absl::StrCat("the colour space ", layout.photometric));
  }
  if (layout.samples != (color ? 3 : 1)) {
    return Unsupported(absl::StrCat(layout.samples, " samples a pixel (alpha, for example)"));
  }
  const bool bits_known = gray    ? IsOneOf(layout.bits, {1, 2, 4, 8, 16})
                          : color ? IsOneOf(layout.bits, {8, 16})
                                  : IsOneOf(layout.bits, {1, 2, 4, 8});
  // libtiff does not turn the one, and takes wrong steps at the edge of the other.
  const bool deep_gray = gray && layout.bits == 16;
  if (!bits_known || (deep_gray && (layout.tiled || layout.photometric == kMinIsWhite))) {
    return Unsupported(absl::StrCat(layout.bits, " bits a sample in this colour space or layout"));
  }
  if (layout.photometric == kPalette) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::vector<uint64_t> colors, directory.Numbers(kColorMap));
    if (colors.size() != uint64_t{3} << layout.bits) {
      return Corrupt(absl::StrCat("has ", colors.size(), " numbers in its palette"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCompression(const Layout& layout, Directory& directory) {
  const bool fax = IsOneOf(layout.compression, {2, 3, 4});
  const bool general =
      IsOneOf(layout.compression, {kUncompressed, kLzw, kDeflate, kOldDeflate, kPackBits});
  const bool jpeg = layout.compression == kJpeg;
  if (!(general || (jpeg && layout.bits == 8 && layout.photometric != kPalette) ||
        (fax && layout.bits == 1))) {
    return Unsupported(absl::StrCat("compression ", layout.compression));
  }
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t predictor, directory.Number(kPredictor, 1));
  const bool differences = predictor == 2 && layout.bits >= 8 &&
                           IsOneOf(layout.compression, {kLzw, kDeflate, kOldDeflate});
  if (predictor != 1 && !differences) return Unsupported(absl::StrCat("predictor ", predictor));
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t fill_order, directory.Number(kFillOrder, 1));
  if (fill_order != 1 && !(fill_order == 2 && fax)) {
    return Unsupported(absl::StrCat("fill order ", fill_order));
  }
  return absl::OkStatus();
}

// What would change the meaning of the samples, and is left to other programs.
absl::Status CheckMeaning(const Layout& layout, Directory& directory) {
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t format,
                            SameForAll(directory, kSampleFormat, layout.samples, 1));
  if (format != 1) return Unsupported(absl::StrCat("samples of format ", format));
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<uint64_t> extra, directory.Numbers(kExtraSamples));
  if (!extra.empty()) return Unsupported("extra samples (alpha, for example)");
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t orientation, directory.Number(kOrientation, 1));
  if (orientation != 1) return Unsupported(absl::StrCat("orientation ", orientation));
  return absl::OkStatus();
}

absl::StatusOr<Layout> ReadLayout(Directory& directory, uint64_t max_pixels) {
  Layout layout;
  BULKHEAD_ASSIGN_OR_RETURN(layout.width, directory.Number(kWidth, 0));
  BULKHEAD_ASSIGN_OR_RETURN(layout.height, directory.Number(kLength, 0));
  BULKHEAD_RETURN_IF_ERROR(CheckImageSize("TIFF", layout.width, layout.height, max_pixels));
  BULKHEAD_ASSIGN_OR_RETURN(layout.samples, directory.Number(kSamplesPerPixel, 1));
  BULKHEAD_ASSIGN_OR_RETURN(layout.bits, SameForAll(directory, kBitsPerSample, layout.samples, 1));
  BULKHEAD_ASSIGN_OR_RETURN(layout.compression, directory.Number(kCompression, kUncompressed));
  if (!directory.Has(kPhotometric)) return Corrupt("does not say its colour space");
  BULKHEAD_ASSIGN_OR_RETURN(layout.photometric, directory.Number(kPhotometric, 0));
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t planar, directory.Number(kPlanarConfig, 1));
  if (planar != 1 && planar != kSeparatePlanes) {
    return Corrupt(absl::StrCat("has planar configuration ", planar));
  }
  layout.separate = planar == kSeparatePlanes && layout.samples > 1;
  layout.tiled = directory.Has(kTileWidth) || directory.Has(kTileLength);
  if (directory.Has(kTileOffsets) != layout.tiled || directory.Has(kStripOffsets) == layout.tiled) {
    return Corrupt("has strips and tiles, or neither");
  }
  if (layout.tiled) {
    BULKHEAD_ASSIGN_OR_RETURN(layout.block_width, directory.Number(kTileWidth, 0));
    BULKHEAD_ASSIGN_OR_RETURN(layout.block_height, directory.Number(kTileLength, 0));
    if (layout.block_width % 16 != 0 || layout.block_height % 16 != 0) {
      return Corrupt("has tiles whose sides are no multiples of 16");
    }
    return layout;
  }
  layout.block_width = layout.width;
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t rows, directory.Number(kRowsPerStrip, layout.height));
  layout.block_height = std::min(rows, layout.height);
  return layout;
}

// Whether the strips or tiles are as many as the layout says, whole, and inside of the file. Gives
// the bytes of the largest one as it is stored.
absl::StatusOr<uint64_t> CheckBlocks(const Layout& layout, absl::string_view file,
                                     Directory& directory) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets,
                            directory.Numbers(layout.tiled ? kTileOffsets : kStripOffsets));
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<uint64_t> sizes,
                            directory.Numbers(layout.tiled ? kTileByteCounts : kStripByteCounts));
  const auto parts = [](uint64_t all, uint64_t each) { return (all + each - 1) / each; };
  const uint64_t down = parts(layout.height, layout.block_height);
  const uint64_t count = down * parts(layout.width, layout.block_width);
  if (offsets.size() != count * (layout.separate ? layout.samples : 1) ||
      sizes.size() != offsets.size()) {
    return Corrupt(absl::StrCat("names ", offsets.size(), " strips or tiles of ", sizes.size(),
                                " sizes, where its pixels need ", count, " a plane"));
  }
  uint64_t largest = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] > file.size() || sizes[i] > file.size() - offsets[i]) {
      return TruncatedRareImage("TIFF");
    }
    const bool last = !layout.tiled && i % count == count - 1;
    const uint64_t rows =
        last ? layout.height - (down - 1) * layout.block_height : layout.block_height;
    if (sizes[i] == 0 ||
        (layout.compression == kUncompressed && sizes[i] != rows * layout.row_bytes())) {
      return Corrupt(absl::StrCat("says that strip or tile ", i, " has ", sizes[i], " bytes"));
    }
    largest = std::max(largest, sizes[i]);
  }
  return largest;
}

}  // namespace

absl::StatusOr<RareHeader> ReadTiffHeader(absl::string_view file, uint64_t max_pixels) {
  BULKHEAD_ASSIGN_OR_RETURN(Directory directory, Directory::Read(file));
  BULKHEAD_ASSIGN_OR_RETURN(const Layout layout, ReadLayout(directory, max_pixels));
  // A tile may be larger than the image; it is decoded as a whole.
  BULKHEAD_RETURN_IF_ERROR(
      CheckImageSize("TIFF's tiles", layout.block_width, layout.block_height, max_pixels));
  BULKHEAD_RETURN_IF_ERROR(CheckColors(layout, directory));
  BULKHEAD_RETURN_IF_ERROR(CheckCompression(layout, directory));
  BULKHEAD_RETURN_IF_ERROR(CheckMeaning(layout, directory));
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t stored_bytes, CheckBlocks(layout, file, directory));
  // One block at a time: as it is stored, decoded, and as pixels.
  const uint64_t planes = layout.separate ? layout.samples : 1;
  const uint64_t block_bytes = layout.block_width * layout.block_height * kRasterBytesPerPixel +
                               layout.block_height * layout.row_bytes() * planes + stored_bytes;
  return RareHeader{{static_cast<int>(layout.height), static_cast<int>(layout.width)}, block_bytes};
}

}  // namespace bulkhead
