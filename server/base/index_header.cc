#include "server/base/index_header.h"

#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"

namespace bulkhead {
namespace {

constexpr char kMagic[8] = {'B', 'U', 'L', 'K', 'H', 'I', 'D', 'X'};
// Byte offsets.
constexpr size_t kVersionAt = 8;
constexpr size_t kChecksumAt = 56;
constexpr size_t kHeaderCrcAt = IndexHeader::kBytes - 4;

// Calls field(place, number) for each number of a header.
template <typename Header, typename Field>
void ForEachNumber(Header& header, const Field& field) {
  field(12, header.kind);
  field(16, header.record_count);
  field(24, header.payload_bytes);
  field(32, header.table_crc32c);
  field(40, header.file_size_bytes);
  field(48, header.file_mtime_ns);
  field(88, header.indexed_count);
  field(96, header.part_count);
  field(104, header.names_bytes);
}

absl::Status Damaged(absl::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, reason::kIndexDamaged,
                   absl::StrCat("record index ", what, "; it has to be built again"));
}

}  // namespace

std::array<uint8_t, IndexHeader::kBytes> IndexHeader::Serialize() const {
  std::array<uint8_t, kBytes> bytes{};
  char* out = reinterpret_cast<char*>(bytes.data());
  std::memcpy(out, kMagic, sizeof(kMagic));
  StoreLittle<uint32_t>(out + kVersionAt, kVersion);
  ForEachNumber(*this,
                [&](size_t at, auto number) { StoreLittle<decltype(number)>(out + at, number); });
  std::memcpy(out + kChecksumAt, checksum.data(), checksum.size());
  StoreLittle<uint32_t>(out + kHeaderCrcAt, Crc32c(absl::string_view(out, kHeaderCrcAt)));
  return bytes;
}

absl::StatusOr<IndexHeader> IndexHeader::Parse(absl::string_view bytes) {
  if (bytes.size() < kBytes) return Damaged("is shorter than its header");
  const char* in = bytes.data();
  if (std::memcmp(in, kMagic, sizeof(kMagic)) != 0) return Damaged("does not begin as one");
  if (LoadLittle<uint32_t>(in + kVersionAt) != kVersion) {
    return Damaged(absl::StrCat("has version ", LoadLittle<uint32_t>(in + kVersionAt),
                                ", this build reads ", kVersion));
  }
  if (LoadLittle<uint32_t>(in + kHeaderCrcAt) != Crc32c(bytes.substr(0, kHeaderCrcAt))) {
    return Damaged("has a header that does not match its checksum");
  }
  IndexHeader header;
  ForEachNumber(header, [&](size_t at, auto& number) {
    number = LoadLittle<std::remove_reference_t<decltype(number)>>(in + at);
  });
  std::memcpy(header.checksum.data(), in + kChecksumAt, header.checksum.size());
  return header;
}

}  // namespace bulkhead
