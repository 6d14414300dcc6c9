#include "client/cpp/internal/batch/quarantine.h"

#include <openssl/sha.h>

#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/internal/base/error.h"

namespace bulkhead::client_internal {

absl::Status AddQuarantined(const std::string& record, v1::Cursor* cursor) {
  constexpr size_t kMostRecords = 256;
  std::set<std::string> records(cursor->quarantined().begin(), cursor->quarantined().end());
  records.insert(record);
  if (record.empty() || records.size() > kMostRecords) {
    return ProtocolError(absl::StrCat("record '", record,
                                      "' was quarantined, which has no name or is ",
                                      "more than a cursor holds"));
  }
  cursor->clear_quarantined();
  for (const std::string& name : records) cursor->add_quarantined(name);
  return absl::OkStatus();
}

std::string QuarantineDigest(const v1::Cursor& cursor) {
  if (cursor.quarantined().empty()) return "";
  std::string names;
  for (const std::string& name :
       std::set<std::string>(cursor.quarantined().begin(), cursor.quarantined().end())) {
    absl::StrAppend(&names, name, absl::string_view("", 1));
  }
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const uint8_t*>(names.data()), names.size(),
         reinterpret_cast<uint8_t*>(digest.data()));
  return absl::BytesToHexString(digest);
}

}  // namespace bulkhead::client_internal
