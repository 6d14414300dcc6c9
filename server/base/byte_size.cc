#include "server/base/byte_size.h"

#include <cctype>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace bulkhead {

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits]))) ++digits;
  uint64_t count = 0;
  const absl::string_view unit = text.substr(digits);
  int shift = -1;
  if (unit == "B") shift = 0;
  if (unit == "KiB") shift = 10;
  if (unit == "MiB") shift = 20;
  if (unit == "GiB") shift = 30;
  if (unit == "TiB") shift = 40;
  if (!absl::SimpleAtoi(text.substr(0, digits), &count) || shift < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' is not a size: write a whole number with its unit, such as 512MiB or 8GiB"));
  }
  if (count > (std::numeric_limits<uint64_t>::max() >> shift)) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is too large"));
  }
  return count << shift;
}

std::string FormatBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  const bool whole = value == static_cast<double>(static_cast<uint64_t>(value));
  return whole ? absl::StrCat(static_cast<uint64_t>(value), kUnits[unit])
               : absl::StrFormat("%.1f%s", value, kUnits[unit]);
}

}  // namespace bulkhead
