#ifndef BULKHEAD_CLIENT_CPP_INTERNAL_SPEC_UTF8_H_
#define BULKHEAD_CLIENT_CPP_INTERNAL_SPEC_UTF8_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace bulkhead::client_internal {

// The offset of the first byte that is not valid UTF-8; npos if all is. Lengths and ranges: The
// Unicode Standard, table 3-7.
size_t FirstByteThatIsNotUtf8(absl::string_view text);

}  // namespace bulkhead::client_internal

#endif  // BULKHEAD_CLIENT_CPP_INTERNAL_SPEC_UTF8_H_
