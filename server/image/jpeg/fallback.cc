#include "server/image/jpeg/fallback.h"

#include <iterator>

namespace bulkhead::jpeg {

absl::string_view FallbackName(Fallback reason) {
  constexpr absl::string_view kNames[] = {"none",        "forced",      "options",    "truncated",
                                          "progressive", "precision",   "components", "scans",
                                          "sampling",    "color_space", "tables",     "segments",
                                          "size",        "data",        "coefficient"};
  static_assert(std::size(kNames) == kFallbackCount);
  const auto number = static_cast<size_t>(reason);
  return number < kFallbackCount ? kNames[number] : "unknown";
}

}  // namespace bulkhead::jpeg
