#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead::tools {

// All that a service says of itself; the client library's own ServiceStatus is a selection. Fields
// of a newer service are left out. `fresh_memory`, errors: those of GetStatusJson.
absl::StatusOr<v1::GetStatusResponse> GetStatusMessage(const std::string& target,
                                                       absl::Duration deadline,
                                                       bool fresh_memory = false);

}  // namespace bulkhead::tools
