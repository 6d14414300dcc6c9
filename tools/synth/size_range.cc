#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tools/synth/dataset.h"

namespace bulkhead::tools {
namespace {

bool ParseSize(absl::string_view text, int& width, int& height) {
  const std::vector<std::string> sides = absl::StrSplit(text, 'x');
  return sides.size() == 2 && absl::SimpleAtoi(sides[0], &width) &&
         absl::SimpleAtoi(sides[1], &height) && width >= kMinSide && width <= kMaxSide &&
         height >= kMinSide && height <= kMaxSide;
}

}  // namespace

bool ParseSizeRange(absl::string_view text, SizeRange& size) {
  const std::vector<std::string> ends = absl::StrSplit(text, absl::ByString(".."));
  if (ends.size() > 2) return false;
  SizeRange parsed;
  if (!ParseSize(ends.front(), parsed.min_width, parsed.min_height) ||
      !ParseSize(ends.back(), parsed.max_width, parsed.max_height) ||
      parsed.max_width < parsed.min_width || parsed.max_height < parsed.min_height) {
    return false;
  }
  size = parsed;
  return true;
}

}  // namespace bulkhead::tools
