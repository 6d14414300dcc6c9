#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead::client_internal {

// Whether the service has no place for the stream now. What a stream had that was open it gets
// again, as soon as others have given back what they got meanwhile, or the storage answers.
bool IsRefused(const absl::Status& status);

// The service says that a later opening will be another matter: it is replaced, builds a damaged
// index anew, or takes so many openings in a time.
bool IsServicesWord(const std::string& reason);

// Whether another connection may help.
bool IsLost(const absl::Status& status);

// What keeps a stream that was opened as `before` from going on with the same samples and bytes as
// `now`.
std::vector<std::string> Differences(const v1::Opened& before, const v1::Opened& now);

}  // namespace bulkhead::client_internal
