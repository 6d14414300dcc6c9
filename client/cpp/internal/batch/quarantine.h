#pragma once

#include <string>

#include "absl/status/status.h"
#include "bulkhead/v1/types.pb.h"

namespace bulkhead::client_internal {

// Adds a record to those that the cursor calls quarantined, sorted by their bytes, unless it is
// among them. INTERNAL (PROTOCOL_VIOLATION) for a record without a name and for more than 256.
absl::Status AddQuarantined(const std::string& record, v1::Cursor* cursor);

// BatchHeader.quarantine_digest of a batch that was made without the cursor's quarantined records:
// SHA-256 (lower-case hex) over their sorted names, each with a zero byte behind it; empty for
// none.
std::string QuarantineDigest(const v1::Cursor& cursor);

}  // namespace bulkhead::client_internal
