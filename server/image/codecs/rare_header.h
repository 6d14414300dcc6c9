#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/image/image.h"

namespace bulkhead {

// Facts from the header of a BMP, TIFF or PNM file. The plugin's codecs decode files that they do
// not understand, and fill in missing data. So headers are read here, and a file is decoded only if
// the codecs are known to decode its kind as other programs do.
struct RareHeader {
  ImageSize size;
  // The plugin's memory while it decodes, besides the result.
  uint64_t work_bytes = 0;
};

// Sample errors of such a file. `format` is "BMP", "TIFF" or "PNM".
inline absl::Status TruncatedRareImage(absl::string_view format) {
  return SampleError(reason::kTruncatedImage,
                     absl::StrCat("this ", format, " ends too early; copy the file again"));
}
inline absl::Status CorruptRareImage(absl::string_view format, absl::string_view what) {
  return SampleError(reason::kCorruptImage,
                     absl::StrCat("the header of this ", format, " ", what, "; replace the file"));
}
inline absl::Status UnsupportedRareImage(absl::string_view format, absl::string_view what) {
  return SampleError(reason::kUnsupportedImage,
                     absl::StrCat("this ", format, " has ", what,
                                  ", which is not decoded; convert it to PNG or JPEG"));
}

// Reads integers of either byte order; a read past the end gives 0 and is remembered.
class ByteReader {
 public:
  ByteReader(absl::string_view bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  uint64_t Unsigned(uint64_t offset, int size) {
    if (!Has(offset, static_cast<uint64_t>(size))) {
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
  bool Has(uint64_t offset, uint64_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset;
  }
  bool overrun() const { return overrun_; }

 private:
  absl::string_view bytes_;
  bool big_endian_;
  bool overrun_ = false;
};

}  // namespace bulkhead
