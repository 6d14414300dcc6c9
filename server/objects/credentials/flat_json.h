#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead {

// The members of a JSON object whose values are strings, numbers, true, false or null, as metadata
// services answer. Strings are unescaped; the others are as written. Absent: `text` is anything
// else.
std::optional<std::map<std::string, std::string>> ParseFlatJson(absl::string_view text);

}  // namespace bulkhead
