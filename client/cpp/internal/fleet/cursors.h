#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/types.pb.h"

namespace bulkhead::client_internal {

// The cursor after each batch of a stream that several replicas make, as one service would have
// given it. A replica knows only the substitutions of its own batches, so they are added up here,
// and errors.max_fraction is enforced here. The quarantine set is that of all replicas together.
// Not thread-safe. Its twin is client/python/bulkhead/_fleet/cursors.py.
class Cursors {
 public:
  // `cursor`: before the first batch. `max_substitutions`: that an epoch may have.
  Cursors(v1::Cursor cursor, uint64_t max_substitutions);

  // After the last batch that was handed out.
  const v1::Cursor& cursor() const { return cursor_; }
  std::set<std::string> quarantined() const;

  // Records that are left out from the next batch on. RESOURCE_EXHAUSTED (QUARANTINE_FULL).
  absl::Status Quarantine(const std::set<std::string>& records);
  // The replica at `target` has loaded these files. FAILED_PRECONDITION (CODE_CHANGED) when another
  // replica has others of these names.
  absl::Status NoteCode(const google::protobuf::RepeatedPtrField<v1::CodeFile>& files,
                        const std::string& target);
  // The cursor after the next batch. DATA_LOSS (TOO_MANY_SUBSTITUTIONS).
  absl::StatusOr<v1::Cursor> After(const v1::BatchHeader& header);

 private:
  v1::Cursor cursor_;
  const uint64_t most_;
  uint64_t epoch_;
  uint64_t counted_;  // substitutions of the epoch
};

}  // namespace bulkhead::client_internal
