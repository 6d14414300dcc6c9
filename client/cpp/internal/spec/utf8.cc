#include "client/cpp/internal/spec/utf8.h"

namespace bulkhead::client_internal {
namespace {

struct Character {
  size_t bytes = 0;  // 0: none begins with that byte
  // What the second byte may be, where there is one.
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
};

Character BegunBy(unsigned char lead) {
  if (lead < 0x80) return {1};
  if (lead >= 0xc2 && lead <= 0xdf) return {2};
  if (lead == 0xe0) return {3, 0xa0};
  if (lead == 0xed) return {3, 0x80, 0x9f};
  if (lead >= 0xe1 && lead <= 0xef) return {3};
  if (lead == 0xf0) return {4, 0x90};
  if (lead == 0xf4) return {4, 0x80, 0x8f};
  if (lead >= 0xf1 && lead <= 0xf3) return {4};
  return {};
}

}  // namespace

size_t FirstByteThatIsNotUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    Character character = BegunBy(static_cast<unsigned char>(text[i]));
    if (character.bytes == 0 || character.bytes > text.size() - i) return i;
    for (size_t k = 1; k < character.bytes; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if (byte < character.low || byte > character.high) return i;
      character.low = 0x80;
      character.high = 0xbf;
    }
    i += character.bytes;
  }
  return absl::string_view::npos;
}

}  // namespace bulkhead::client_internal
