#include "server/base/quarantine_set.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/record_name.h"

namespace bulkhead {

absl::StatusOr<bool> QuarantineSet::Add(absl::string_view record) {
  if (record.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                     "a record to be quarantined has no name; write it as in messages, such as "
                     "pos-003.tfrecord@81923");
  }
  std::string name = CanonicalRecordName(std::string(record));
  if (records_.count(name) > 0) return false;
  if (records_.size() >= kMaxRecords) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, reason::kQuarantineFull,
        absl::StrCat("the quarantine already holds ", kMaxRecords, " records, its limit, so ", name,
                     " cannot be added; repair records that `bulkhead quarantine list` shows, then "
                     "remove them with `bulkhead quarantine clear`"),
        RecordMetadata(name));
  }
  return records_.insert(std::move(name)).second;
}

std::string QuarantineSet::Digest() const {
  if (records_.empty()) return "";
  Sha256 hash;
  for (const std::string& record : records_) {
    hash.Update(record);
    hash.Update(absl::string_view("", 1));
  }
  return hash.FinishHex();
}

}  // namespace bulkhead
