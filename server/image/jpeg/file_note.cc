#include "server/image/jpeg/file_note.h"

#include "absl/strings/str_cat.h"
#include "server/base/little_endian.h"

namespace bulkhead::jpeg {
namespace {

constexpr size_t kOrientationAt = 2 * sizeof(uint64_t);
constexpr size_t kHeaderAt = kOrientationAt + 1;
constexpr uint8_t kScan = 0xDA;

// Whether a segment is one of those that applications add, and comments. JFIF's (APP0) and Adobe's
// (APP14) say what the colours are.
bool IsPassedOver(uint8_t marker) {
  return (marker > 0xE0 && marker <= 0xEF && marker != 0xEE) || marker == 0xFE;
}

// The segments up to the first scan that a decoder interprets.
void AppendHeader(absl::string_view file, std::string& bytes) {
  absl::StrAppend(&bytes, file.substr(0, 2));
  size_t at = 2;
  while (file.size() - at >= 4) {
    const auto marker = static_cast<uint8_t>(file[at + 1]);
    if (marker == 0xFF) {  // a fill byte
      ++at;
      continue;
    }
    const size_t length = static_cast<size_t>(static_cast<uint8_t>(file[at + 2])) << 8 |
                          static_cast<uint8_t>(file[at + 3]);
    if (length > file.size() - at - 2) return;
    if (!IsPassedOver(marker)) absl::StrAppend(&bytes, file.substr(at, 2 + length));
    at += 2 + length;
    if (marker == kScan) return;
  }
}

}  // namespace

void FileNote::Write(const StoreKey& coefficients, int orientation, absl::string_view file,
                     std::string& bytes) {
  bytes.clear();
  for (const uint64_t word : coefficients.words) AppendLittle<uint64_t>(bytes, word);
  bytes.push_back(static_cast<char>(orientation));
  AppendHeader(file, bytes);
}

bool FileNote::Parse(absl::string_view bytes) {
  if (bytes.size() < kHeaderAt) return false;
  coefficients = {
      {LoadLittle<uint64_t>(bytes.data()), LoadLittle<uint64_t>(bytes.data() + sizeof(uint64_t))}};
  orientation = static_cast<uint8_t>(bytes[kOrientationAt]);
  header = bytes.substr(kHeaderAt);
  return orientation >= 1 && orientation <= 8;
}

}  // namespace bulkhead::jpeg
