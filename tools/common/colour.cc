#include "tools/common/colour.h"

#include <unistd.h>

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
  const char* const code = colour == Colour::kBold ? "1" : colour == Colour::kRed ? "31" : "33";
  return absl::StrCat("\033[", code, "m", text, "\033[0m");
}

}  // namespace bulkhead::tools
