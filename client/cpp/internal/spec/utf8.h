#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace bulkhead::client_internal {

// The offset of the first byte that is not valid UTF-8; npos if all is. Lengths and ranges: The
// Unicode Standard, table 3-7.
size_t FirstByteThatIsNotUtf8(absl::string_view text);

}  // namespace bulkhead::client_internal
