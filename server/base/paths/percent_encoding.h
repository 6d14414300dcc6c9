#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead {

// `text` with "%2F" for each byte but letters, digits, '-', '.', '_', '~' (RFC 3986) and those of
// `kept`.
std::string PercentEncoded(absl::string_view text, absl::string_view kept = "");

}  // namespace bulkhead
