#include "server/base/utf8.h"

namespace bulkhead {

size_t FirstByteThatIsNoText(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  for (size_t i = 0; i < text.size();) {
    const unsigned lead = byte(i);
    size_t more = 0;
    unsigned low = 0x80;
    unsigned high = 0xbf;
    if (lead == 0) return i;
    if (lead < 0x80) {
      ++i;
      continue;
    }
    if (lead >= 0xc2 && lead <= 0xdf) {
      more = 1;
    } else if (lead >= 0xe0 && lead <= 0xef) {
      more = 2;
      if (lead == 0xe0) low = 0xa0;
      if (lead == 0xed) high = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
      more = 3;
      if (lead == 0xf0) low = 0x90;
      if (lead == 0xf4) high = 0x8f;
    } else {
      return i;
    }
    for (size_t k = 1; k <= more; ++k) {
      if (byte(i + k) < low || byte(i + k) > high) return i;
      low = 0x80;
      high = 0xbf;
    }
    i += more + 1;
  }
  return absl::string_view::npos;
}

}  // namespace bulkhead
