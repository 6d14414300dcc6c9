#pragma once

#include "absl/status/statusor.h"
#include "bulkhead/loader.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead::client_internal {

// The spec as it travels: its text, what to call it, and the folder its paths start from. The
// service parses it. NOT_FOUND (FILE_NOT_FOUND) or PERMISSION_DENIED (FILE_UNREADABLE) for a file.
absl::StatusOr<v1::SpecInput> ToSpecInput(const SpecSource& source);

}  // namespace bulkhead::client_internal
