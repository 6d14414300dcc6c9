#pragma once

#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead::tools {

enum class Colour { kBold, kRed, kYellow, kGreen };

// `text` in that colour where `stream` is a terminal that has colours; as it is elsewhere, and
// where the variable NO_COLOR is set (no-color.org).
std::string Coloured(absl::string_view text, Colour colour, std::FILE* stream);

}  // namespace bulkhead::tools
