#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "tensorflow/example.pb.h"
#include "tools/stream/guess_spec.h"

namespace bulkhead::tools {
namespace {

// A first record above this is no image that a person would try the quickstart with.
constexpr uint64_t kMaxRecordBytes = 256 << 20;

absl::Status NotReadable(const std::string& path, absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kCorruptRecord,
                   absl::StrCat(path, "@0: ", what));
}

template <typename Int>
Int Load(const char* bytes) {
  Int value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// TFRecord frame: length (8), masked CRC of it (4), data, masked CRC of it (4); little-endian.
absl::StatusOr<std::string> ReadFirstRecord(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char head[12];
  if (!file.read(head, sizeof(head))) {
    return NotReadable(path, "is too short to hold a TFRecord");
  }
  if (static_cast<uint8_t>(head[0]) == 0x1f && static_cast<uint8_t>(head[1]) == 0x8b) {
    return NotReadable(path,
                       "is compressed, so its features cannot be guessed; write a spec for it "
                       "(docs/spec.md) and stream that");
  }
  const uint64_t length = Load<uint64_t>(head);
  if (MaskCrc32c(Crc32c({head, 8})) != Load<uint32_t>(head + 8)) {
    return NotReadable(path,
                       "does not begin as a TFRecord does (the checksum of the first "
                       "record's length is wrong)");
  }
  if (length > kMaxRecordBytes) return NotReadable(path, "its first record is over 256 MiB");
  std::string record(length, '\0');
  if (!file.read(record.data(), static_cast<std::streamsize>(length))) {
    return NotReadable(path, "its first record is cut short");
  }
  return record;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> PeekExample(const std::string& path) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string record, ReadFirstRecord(path));
  ::bulkhead::tensorflow::Example example;
  if (!example.ParseFromString(record)) {
    return NotReadable(path, "its first record is no tf.Example");
  }
  std::map<std::string, std::string> found;
  for (const auto& [name, feature] : example.features().feature()) {
    if (feature.has_bytes_list()) {
      found[name] = absl::StrCat("bytes x ", feature.bytes_list().value_size());
    } else if (feature.has_int64_list()) {
      found[name] = absl::StrCat("int64 x ", feature.int64_list().value_size());
    } else if (feature.has_float_list()) {
      found[name] = absl::StrCat("float x ", feature.float_list().value_size());
    } else {
      found[name] = "empty";
    }
  }
  return found;
}

}  // namespace bulkhead::tools
