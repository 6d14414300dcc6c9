#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bulkhead/loader.h"

namespace bulkhead::client_internal {

// What the service is started with: "--workers", "4", …
std::vector<std::string> FlagsOf(const EmbeddedOptions& options);

// A message of an embedded service, which advises flags, for the program that started it:
// "--worker-quota" becomes "EmbeddedOptions::worker_quota". Flags without such a field stay: they
// need a service of the reader's own.
std::string InOptions(absl::string_view message);

}  // namespace bulkhead::client_internal
