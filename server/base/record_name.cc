#include "server/base/record_name.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/random.h"
#include "server/base/utf8.h"

namespace bulkhead {
namespace {

bool IsControl(unsigned char byte) { return byte < 0x20 || byte == 0x7f; }

// Bytes of the character that `text` begins with, if that has more than one byte and is none that
// people see: U+0080 to U+009F, which command terminals; U+2028 to U+202E and U+2066 to U+2069,
// which end lines or change the order in which a line is read. 0: it is another.
size_t UnseenBytes(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  if (byte(0) == 0xc2) return byte(1) >= 0x80 && byte(1) < 0xa0 ? 2 : 0;
  if (byte(0) != 0xe2) return 0;
  const bool unseen = (byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae) ||
                      (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9);
  return unseen ? 3 : 0;
}

// The first byte that is not printable; npos if all are.
size_t FirstUnprintable(absl::string_view name) {
  bool ascii = true;
  for (size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    if (IsControl(byte) || UnseenBytes(name.substr(i)) > 0) return i;
    ascii &= byte < 0x80;
  }
  return ascii ? absl::string_view::npos : FirstByteThatIsNoText(name);
}

// `text` with "\xHH" for every unprintable byte not in `kept`; in one pass.
std::string Escape(absl::string_view text, absl::string_view kept) {
  std::string escaped;
  size_t begin = 0;  // of the part to append
  size_t no_text = FirstByteThatIsNoText(text);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t unseen = UnseenBytes(text.substr(i));
    const bool control = IsControl(byte) && kept.find(text[i]) == absl::string_view::npos;
    if (!control && unseen == 0 && i != no_text) continue;
    absl::StrAppend(&escaped, text.substr(begin, i - begin), "\\x",
                    absl::Hex(byte, absl::kZeroPad2));
    for (size_t left = unseen; left > 1; --left) {
      const auto next = static_cast<unsigned char>(text[++i]);
      absl::StrAppend(&escaped, "\\x", absl::Hex(next, absl::kZeroPad2));
    }
    begin = i + 1;
    if (i != no_text) continue;
    const size_t next = FirstByteThatIsNoText(text.substr(begin));
    no_text = next == absl::string_view::npos ? next : begin + next;
  }
  absl::StrAppend(&escaped, text.substr(begin));
  return escaped;
}

}  // namespace

std::string Printable(absl::string_view name) { return Escape(name, ""); }

std::string PrintableLines(absl::string_view text) { return Escape(text, "\n\t"); }

bool IsPrintable(absl::string_view name) {
  return FirstUnprintable(name) == absl::string_view::npos;
}

std::string CanonicalRecordName(std::string name) {
  if (!IsPrintable(name)) name = Printable(name);
  if (name.size() <= kMaxRecordNameBytes) return name;
  const std::string hash = absl::StrCat("~", absl::Hex(StableHash(name), absl::kZeroPad16), "~…");
  size_t begin = name.size() - (kMaxRecordNameBytes - hash.size());
  // Do not begin inside a character.
  while (begin < name.size() && (static_cast<unsigned char>(name[begin]) & 0xc0) == 0x80) ++begin;
  return absl::StrCat(hash, absl::string_view(name).substr(begin));
}

std::map<std::string, std::string> RecordMetadata(const std::string& name) {
  std::map<std::string, std::string> metadata = {{"record", name}};
  const size_t at = name.rfind('@');
  uint64_t offset = 0;
  if (at != std::string::npos && absl::SimpleAtoi(name.substr(at + 1), &offset)) {
    metadata["file"] = name.substr(0, at);
    metadata["offset"] = name.substr(at + 1);
  } else {
    metadata["file"] = name;
  }
  return metadata;
}

}  // namespace bulkhead
