#include "server/source/tar/tar_walk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

constexpr uint64_t kTarBlockBytes = 512;
// Names and pax headers are read into memory; a real one has a few hundred bytes.
constexpr uint64_t kMaxExtendedBytes = uint64_t{1} << 20;
// Larger sizes overflow an offset.
constexpr uint64_t kMaxSizeBytes = uint64_t{1} << 62;

absl::string_view Text(const char* header, size_t offset, size_t width) {
  const absl::string_view field(header + offset, width);
  return field.substr(0, field.find('\0'));
}

// An octal number, or a base-256 one, which GNU tar writes where octal digits do not suffice.
std::optional<uint64_t> Number(const char* header, size_t offset, size_t width) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(header[offset + i]); };
  uint64_t value = 0;
  if ((byte(0) & 0x80) != 0) {
    if (byte(0) != 0x80) return std::nullopt;  // negative, or wider than any size
    for (size_t i = 1; i < width; ++i) {
      if (value > kMaxSizeBytes >> 8) return std::nullopt;
      value = value << 8 | byte(i);
    }
    return value;
  }
  for (const char digit : absl::StripAsciiWhitespace(Text(header, offset, width))) {
    if (digit < '0' || digit > '7') return std::nullopt;
    value = value << 3 | static_cast<uint64_t>(digit - '0');
  }
  return value;
}

bool HasItsChecksum(absl::string_view header) {
  const std::optional<uint64_t> stated = Number(header.data(), 148, 8);
  if (!stated.has_value()) return false;
  // Some old programs summed signed bytes. The checksum's own eight bytes count as blanks.
  uint32_t sum = 8 * ' ';
  int32_t signed_sum = 8 * ' ';
  for (const char byte : header) {
    sum += static_cast<unsigned char>(byte);
    signed_sum += static_cast<signed char>(byte);
  }
  for (const char byte : header.substr(148, 8)) {
    sum -= static_cast<unsigned char>(byte);
    signed_sum -= static_cast<signed char>(byte);
  }
  return *stated == sum || static_cast<int64_t>(*stated) == signed_sum;
}

void SetName(const char* header, std::string& name) {
  name.clear();
  // GNU tar's own format has times where ustar has a prefix.
  const bool is_ustar = std::memcmp(header + 257, "ustar\0", 6) == 0;
  const absl::string_view prefix = is_ustar ? Text(header, 345, 155) : "";
  absl::StrAppend(&name, prefix, prefix.empty() ? "" : "/", Text(header, 0, 100));
}

bool IsZero(absl::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == '\0'; });
}

absl::Status CutShort(absl::string_view where) {
  return SampleError(reason::kTruncatedRecord, absl::StrCat("the file ends ", where));
}

absl::Status Damaged(absl::string_view what) { return SampleError(reason::kCorruptRecord, what); }

absl::Status IsSparse() { return Damaged("the member is a sparse file, which is not read"); }

}  // namespace

std::optional<TarMemberName> SplitMemberName(absl::string_view name) {
  if (absl::StartsWith(name, "__") && absl::EndsWith(name, "__")) return std::nullopt;
  const size_t slash = name.rfind('/');
  const size_t base = slash == absl::string_view::npos ? 0 : slash + 1;
  const size_t dot = name.find('.', base);
  if (dot == absl::string_view::npos || dot == base) return std::nullopt;
  return TarMemberName{name.substr(0, dot), name.substr(dot + 1)};
}

bool BeginsTar(absl::string_view head) {
  return head.size() >= kTarBlockBytes && HasItsChecksum(head.substr(0, kTarBlockBytes));
}

absl::StatusOr<bool> TarWalk::Next(TarMember& member) {
  Extended extended;
  uint64_t begin = position_;
  bool is_extended = false;
  const auto forget = [&] {
    extended = {};
    begin = position_;
    is_extended = false;
  };
  for (;;) {
    char header[kTarBlockBytes];
    BULKHEAD_ASSIGN_OR_RETURN(const bool more, ReadHeader(header));
    if (!more) {
      if (is_extended) return CutShort("behind an extended header, whose member is missing");
      return false;
    }
    if (!HasItsChecksum(absl::string_view(header, sizeof(header)))) {
      return Damaged("a header does not match its checksum");
    }
    has_begun_ = true;
    const std::optional<uint64_t> stated = Number(header, 124, 12);
    if (!stated.has_value() || *stated > kMaxSizeBytes) return Damaged("its size is no number");
    const char type = header[156];
    if (type == 'x' || type == 'X' || type == 'g') {
      BULKHEAD_RETURN_IF_ERROR(ReadPax(*stated, type == 'g', extended));
      is_extended = is_extended || type != 'g';
      continue;
    }
    if (type == 'L' || type == 'K') {  // a long name; a long target of a link
      BULKHEAD_ASSIGN_OR_RETURN(const std::string text, ReadText(*stated));
      if (type == 'L') extended.name = text.substr(0, text.find('\0'));
      is_extended = true;
      continue;
    }
    if (type == 'S') return IsSparse();
    // Links, devices, folders and pipes have no data, whatever their size says.
    if (type >= '1' && type <= '6') {
      forget();
      continue;
    }
    if (extended.name.has_value()) {
      member.name = *std::move(extended.name);
    } else {
      SetName(header, member.name);
    }
    member.begin = begin;
    member.data = position_;
    member.size_bytes = extended.size_bytes.value_or(*stated);
    BULKHEAD_RETURN_IF_ERROR(Pass(member.size_bytes));
    const bool is_file = type == '0' || type == '\0' || type == '7';
    // Before ustar, a folder was a file whose name ends with a slash.
    if (is_file && !absl::EndsWith(member.name, "/")) return true;
    forget();
  }
}

absl::StatusOr<bool> TarWalk::ReadHeader(char* header) {
  header_ = position_;
  BULKHEAD_ASSIGN_OR_RETURN(const size_t got, stream_.Read(header, kTarBlockBytes));
  if (got == 0) return false;
  if (got < kTarBlockBytes) return CutShort("in a header");
  position_ += kTarBlockBytes;
  return !IsZero(absl::string_view(header, kTarBlockBytes));
}

absl::StatusOr<std::string> TarWalk::ReadText(uint64_t size) {
  if (size > kMaxExtendedBytes) {
    return Damaged(absl::StrCat("an extended header has ", size, " bytes, more than the limit of ",
                                kMaxExtendedBytes));
  }
  std::string text(static_cast<size_t>(size), '\0');
  BULKHEAD_ASSIGN_OR_RETURN(const size_t got, stream_.Read(text.data(), text.size()));
  if (got < text.size()) return CutShort("in an extended header");
  position_ += size;
  BULKHEAD_RETURN_IF_ERROR(Pass((kTarBlockBytes - size % kTarBlockBytes) % kTarBlockBytes));
  return text;
}

absl::Status TarWalk::ReadPax(uint64_t size, bool global, Extended& extended) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string text, ReadText(size));
  // Each record is "LENGTH KEY=VALUE\n", and its length counts all of it.
  for (absl::string_view rest = text; !rest.empty() && rest[0] != '\0';) {
    const size_t space = rest.find(' ');
    uint64_t length = 0;
    if (space == absl::string_view::npos || !absl::SimpleAtoi(rest.substr(0, space), &length) ||
        length <= space + 1 || length > rest.size() || rest[length - 1] != '\n') {
      return Damaged("a pax header is damaged");
    }
    const absl::string_view record = rest.substr(space + 1, length - space - 2);
    rest.remove_prefix(length);
    const size_t equals = record.find('=');
    if (equals == absl::string_view::npos) return Damaged("a pax header is damaged");
    const absl::string_view key = record.substr(0, equals);
    const absl::string_view value = record.substr(equals + 1);
    if (absl::StartsWith(key, "GNU.sparse.")) return IsSparse();
    if (global) continue;  // comments in practice, such as git's; one name for all makes no sense
    if (key == "path") extended.name = std::string(value);
    if (key != "size") continue;
    uint64_t bytes = 0;
    if (!absl::SimpleAtoi(value, &bytes) || bytes > kMaxSizeBytes) {
      return Damaged("a pax header has a size that is no number");
    }
    extended.size_bytes = bytes;
  }
  return absl::OkStatus();
}

absl::Status TarWalk::Pass(uint64_t size) {
  // Of a member, the padding begins where its data end; data and padding are at most a block apart.
  const uint64_t end = position_ + size;
  const uint64_t whole = size + (kTarBlockBytes - end % kTarBlockBytes) % kTarBlockBytes;
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t skipped, stream_.Skip(whole));
  if (skipped < whole) {
    return CutShort(
        absl::StrCat("in a member that takes ", whole, " bytes, of which ", skipped, " are there"));
  }
  position_ += whole;
  return absl::OkStatus();
}

}  // namespace bulkhead
