#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// The names (record_name.h) of records that are treated as impossible to produce. Like order and
// stages, the set determines the content of batches. Unknown names have no effect. A value type;
// not thread-safe.
class QuarantineSet {
 public:
  // Small, because every cursor contains the set.
  static constexpr size_t kMaxRecords = 256;

  // True if the record is new to the set. RESOURCE_EXHAUSTED (QUARANTINE_FULL) if the set is full,
  // INVALID_ARGUMENT for an empty name.
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
