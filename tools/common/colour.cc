#include "tools/common/colour.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace bulkhead::tools {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string Coloured(absl::string_view text, Colour colour, std::FILE* stream) {
  if (!Variable("NO_COLOR").empty() || Variable("TERM") == "dumb" || isatty(fileno(stream)) == 0) {
    return std::string(text);
  }
  constexpr std::array<const char*, 4> kCodes = {"1", "31", "33", "32"};  // by Colour
  return absl::StrCat("\033[", kCodes[static_cast<size_t>(colour)], "m", text, "\033[0m");
}

}  // namespace bulkhead::tools
