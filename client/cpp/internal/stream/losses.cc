#include "client/cpp/internal/stream/losses.h"

#include "absl/strings/str_cat.h"
#include "bulkhead/error.h"
#include "client/cpp/internal/base/error.h"

namespace bulkhead::client_internal {

bool IsRefused(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  return reason == "BUDGET_EXCEEDED" || reason == "TOO_MANY_CALLS" || reason == "STORAGE_STALLED";
}

bool IsServicesWord(const std::string& reason) {
  return reason == "SHUTTING_DOWN" || reason == "INDEX_DAMAGED" || reason == kOpenedTooOften;
}

bool IsLost(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  // The connection to the arena door broke, and with it the stream; another one may stand. (Shared
  // memory that cannot be had at all is FAILED_PRECONDITION.)
  if (reason == client_reason::kTransportUnavailable) return absl::IsUnavailable(status);
  return reason == client_reason::kServiceUnavailable || IsServicesWord(reason) ||
         reason == client_reason::kServiceSilent || reason == client_reason::kServiceStartFailed ||
         reason == "STREAM_IDLE";
}

std::vector<std::string> Differences(const v1::Opened& before, const v1::Opened& now) {
  std::vector<std::string> changed;
  if (before.cursor().order_fingerprint() != now.cursor().order_fingerprint()) {
    changed.emplace_back("the data or its order");
  }
  if (before.cursor().bytes_fingerprint() != now.cursor().bytes_fingerprint()) {
    changed.emplace_back("the processing");
  }
  if (before.samples_per_epoch() != now.samples_per_epoch()) {
    changed.push_back(absl::StrCat("the number of samples (", before.samples_per_epoch(), ", now ",
                                   now.samples_per_epoch(), ")"));
  }
  if (before.schema().SerializeAsString() != now.schema().SerializeAsString()) {
    changed.emplace_back("the outputs");
  }
  return changed;
}

}  // namespace bulkhead::client_internal
