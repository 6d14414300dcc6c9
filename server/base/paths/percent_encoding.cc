#include "server/base/paths/percent_encoding.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace bulkhead {

std::string PercentEncoded(absl::string_view text, absl::string_view kept) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (absl::ascii_isalnum(c) || absl::StrContains("-._~", c) || absl::StrContains(kept, c)) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return encoded;
}

}  // namespace bulkhead
