#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "server/base/value_store.h"

namespace bulkhead::jpeg {

// What is kept of a JPEG file in a certain state, by FileBytes::state, so that it need not be read
// again where its coefficients are kept. As bytes: the key of these, two little-endian u64; the
// EXIF orientation, a u8; the file's header.
struct FileNote {
  StoreKey coefficients;
  int orientation = 1;
  // The file's segments up to its first scan, without those that no decoder interprets.
  absl::string_view header;

  // The note of a whole file. `bytes` is reused.
  static void Write(const StoreKey& coefficients, int orientation, absl::string_view file,
                    std::string& bytes);
  // A view of `bytes`; false if they are none. Its header may be that of no file.
  bool Parse(absl::string_view bytes);
};

}  // namespace bulkhead::jpeg
