#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace bulkhead {

// The offset of the first byte that is zero or not valid UTF-8; npos if there is none. Lengths and
// ranges: The Unicode Standard, table 3-7.
size_t FirstByteThatIsNoText(absl::string_view text);

}  // namespace bulkhead
