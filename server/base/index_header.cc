#include "server/base/index_header.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"

namespace bulkhead {
namespace {

constexpr char kMagic[8] = {'B', 'U', 'L', 'K', 'H', 'I', 'D', 'X'};
// Byte offsets.
constexpr size_t kVersionAt = 8;
constexpr size_t kKindAt = 12;
constexpr size_t kRecordCountAt = 16;
constexpr size_t kPayloadBytesAt = 24;
constexpr size_t kPayloadCrcAt = 32;
constexpr size_t kFileSizeAt = 40;
constexpr size_t kFileMtimeAt = 48;
constexpr size_t kChecksumAt = 56;
constexpr size_t kIndexedCountAt = 88;
constexpr size_t kPartCountAt = 96;
constexpr size_t kNamesBytesAt = 104;
constexpr size_t kHeaderCrcAt = IndexHeader::kBytes - 4;

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
  StoreLittle<uint32_t>(out + kKindAt, kind);
  StoreLittle<uint64_t>(out + kRecordCountAt, record_count);
  StoreLittle<uint64_t>(out + kPayloadBytesAt, payload_bytes);
  StoreLittle<uint32_t>(out + kPayloadCrcAt, table_crc32c);
  StoreLittle<uint64_t>(out + kFileSizeAt, file_size_bytes);
  StoreLittle<int64_t>(out + kFileMtimeAt, file_mtime_ns);
  std::memcpy(out + kChecksumAt, checksum.data(), checksum.size());
  StoreLittle<uint64_t>(out + kIndexedCountAt, indexed_count);
  StoreLittle<uint64_t>(out + kPartCountAt, part_count);
  StoreLittle<uint64_t>(out + kNamesBytesAt, names_bytes);
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
  header.kind = LoadLittle<uint32_t>(in + kKindAt);
  header.record_count = LoadLittle<uint64_t>(in + kRecordCountAt);
  header.payload_bytes = LoadLittle<uint64_t>(in + kPayloadBytesAt);
  header.table_crc32c = LoadLittle<uint32_t>(in + kPayloadCrcAt);
  header.file_size_bytes = LoadLittle<uint64_t>(in + kFileSizeAt);
  header.file_mtime_ns = LoadLittle<int64_t>(in + kFileMtimeAt);
  std::memcpy(header.checksum.data(), in + kChecksumAt, header.checksum.size());
  header.indexed_count = LoadLittle<uint64_t>(in + kIndexedCountAt);
  header.part_count = LoadLittle<uint64_t>(in + kPartCountAt);
  header.names_bytes = LoadLittle<uint64_t>(in + kNamesBytesAt);
  return header;
}

}  // namespace bulkhead
