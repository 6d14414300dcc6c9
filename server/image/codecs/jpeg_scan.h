#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/image.h"

namespace bulkhead {

// Facts from the marker structure of a JPEG file (ITU-T T.81, annex B).
struct JpegStructure {
  ImageSize size;
  int component_count = 0;
  int scan_count = 0;
  // The file ends before EOI, but after the header of a scan.
  bool truncated = false;
};

// Walks through the markers of the whole file, from SOI to EOI, without decoding; bytes after EOI
// are ignored. Entropy-coded data is skipped at memchr speed. This is the part of a JPEG's verdict
// that does not depend on which rows are decoded. Errors, all sample errors: TRUNCATED_IMAGE when
// the file ends before EOI; CORRUPT_IMAGE when something other than a marker stands where one must,
// a segment is malformed, restart markers are out of order or come without a restart interval,
// there is no frame or no scan, or there are more than 1,000 scans; IMAGE_TOO_LARGE, as soon as the
// frame header is met, when it has more than `max_pixels`. With `accept_truncated` a file that ends
// after the header of a scan is no error.
absl::StatusOr<JpegStructure> ScanJpeg(absl::string_view file, uint64_t max_pixels,
                                       bool accept_truncated = false);

}  // namespace bulkhead
