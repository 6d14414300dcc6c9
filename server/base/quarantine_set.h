#ifndef BULKHEAD_SERVER_BASE_QUARANTINE_SET_H_
#define BULKHEAD_SERVER_BASE_QUARANTINE_SET_H_

#include <cstddef>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// The records that count as ones that cannot be produced, by their names (record_name.h): an input
// of every batch, like its order and its stages. Names of other data sets do no harm. A value; not
// thread-safe while it changes.
class QuarantineSet {
 public:
  // A set travels in every cursor, so it stays small.
  static constexpr size_t kMaxRecords = 256;

  // Whether the record is new to the set. RESOURCE_EXHAUSTED (QUARANTINE_FULL) when the set is
  // full, INVALID_ARGUMENT for an empty name.
  absl::StatusOr<bool> Add(absl::string_view record);

  bool Contains(const std::string& record) const { return records_.count(record) > 0; }
  bool empty() const { return records_.empty(); }
  // Sorted by their bytes.
  const std::set<std::string>& records() const { return records_; }
  // SHA-256 (lower-case hex) over the sorted names, each followed by a zero byte; empty for the
  // empty set.
  std::string Digest() const;

 private:
  std::set<std::string> records_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_BASE_QUARANTINE_SET_H_
