#include "server/image/codecs/pnm_header.h"

#include "absl/strings/ascii.h"
#include "server/image/image_error.h"

namespace bulkhead {
namespace {

// OpenCV's result, before it is copied.
constexpr uint64_t kWorkBytesPerPixel = 4;
constexpr size_t kMaxDigits = 10;

struct Pnm {
  bool text = false;
  bool bitmap = false;
  uint64_t channels = 1;
  uint64_t width = 0;
  uint64_t height = 0;
  uint64_t largest = 1;

  uint64_t values() const { return width * height * channels; }
};

// Goes over a PNM's white space, comments and numbers.
class Cursor {
 public:
  Cursor(absl::string_view file, size_t at) : file_(file), at_(at) {}

  size_t at() const { return at_; }
  bool AtEnd() const { return at_ >= file_.size(); }

  // "# comment 640": white space and comments, a number, and one white space, which is consumed.
  absl::StatusOr<uint64_t> HeaderNumber() {
    while (!AtEnd() && (absl::ascii_isspace(file_[at_]) || file_[at_] == '#')) {
      if (file_[at_] == '#') {
        while (!AtEnd() && file_[at_] != '\n' && file_[at_] != '\r') ++at_;
      } else {
        ++at_;
      }
    }
    return Number(kMaxDigits);
  }

  // White space, and a number of a plain text's pixels.
  absl::StatusOr<uint64_t> TextNumber(size_t max_digits) {
    while (!AtEnd() && absl::ascii_isspace(file_[at_])) ++at_;
    return Number(max_digits);
  }

  // A pixel of a bitmap in plain text; they need no white space between them.
  absl::Status TextBit() {
    while (!AtEnd() && absl::ascii_isspace(file_[at_])) ++at_;
    if (AtEnd()) return TruncatedRareImage("PNM");
    if (file_[at_] != '0' && file_[at_] != '1') return NotANumber();
    ++at_;
    return absl::OkStatus();
  }

 private:
  static absl::Status NotANumber() {
    return CorruptRareImage("PNM", "or its text has something else where a number must stand");
  }

  absl::StatusOr<uint64_t> Number(size_t max_digits) {
    uint64_t number = 0;
    const size_t start = at_;
    for (; !AtEnd() && absl::ascii_isdigit(file_[at_]); ++at_) {
      if (at_ - start == max_digits) return NotANumber();
      number = number * 10 + static_cast<uint64_t>(file_[at_] - '0');
    }
    if (AtEnd()) return TruncatedRareImage("PNM");
    if (at_ == start || !absl::ascii_isspace(file_[at_])) return NotANumber();
    ++at_;
    return number;
  }

  absl::string_view file_;
  size_t at_;
};

// All pixels of a plain text, which OpenCV reads up to where it likes them.
absl::Status CheckText(const Pnm& pnm, Cursor& cursor) {
  const size_t digits = absl::StrCat(pnm.largest).size();
  for (uint64_t i = 0; i < pnm.values(); ++i) {
    if (pnm.bitmap) {
      BULKHEAD_RETURN_IF_ERROR(cursor.TextBit());
      continue;
    }
    BULKHEAD_ASSIGN_OR_RETURN(const uint64_t value, cursor.TextNumber(digits));
    if (value > pnm.largest) {
      return CorruptRareImage("PNM", absl::StrCat("says that ", pnm.largest,
                                                  " is the largest value, and there is a ", value));
    }
  }
  return absl::OkStatus();
}

uint64_t PixelBytes(const Pnm& pnm) {
  if (pnm.bitmap) return (pnm.width + 7) / 8 * pnm.height;
  return pnm.values() * (pnm.largest > 255 ? 2 : 1);
}

}  // namespace

absl::StatusOr<RareHeader> ReadPnmHeader(absl::string_view file, uint64_t max_pixels) {
  const char kind = file[1];
  Pnm pnm;
  pnm.text = kind <= '3';
  pnm.bitmap = kind == '1' || kind == '4';
  pnm.channels = kind == '3' || kind == '6' ? 3 : 1;
  Cursor cursor(file, 2);
  BULKHEAD_ASSIGN_OR_RETURN(pnm.width, cursor.HeaderNumber());
  BULKHEAD_ASSIGN_OR_RETURN(pnm.height, cursor.HeaderNumber());
  if (!pnm.bitmap) {
    BULKHEAD_ASSIGN_OR_RETURN(pnm.largest, cursor.HeaderNumber());
  }
  BULKHEAD_RETURN_IF_ERROR(CheckImageSize("PNM", pnm.width, pnm.height, max_pixels));
  if (!pnm.bitmap && pnm.largest != 255 && pnm.largest != 65535) {
    return UnsupportedRareImage(
        "PNM", absl::StrCat(pnm.largest, " as its largest value (not 255 or 65535)"));
  }
  if (pnm.text) {
    BULKHEAD_RETURN_IF_ERROR(CheckText(pnm, cursor));
  } else if (file.size() - cursor.at() < PixelBytes(pnm)) {
    return TruncatedRareImage("PNM");
  }
  return RareHeader{{static_cast<int>(pnm.height), static_cast<int>(pnm.width)},
                    pnm.width * pnm.height * kWorkBytesPerPixel};
}

}  // namespace bulkhead
