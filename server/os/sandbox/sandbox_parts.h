#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/os/sandbox/sandbox.h"

namespace bulkhead {

// Options with the parts that --sandbox names: "all", "none", or some of seccomp, landlock and
// capabilities with commas between. Error: INVALID_ARGUMENT with what may be written.
absl::StatusOr<SandboxOptions> ParseSandboxParts(const std::string& text);

}  // namespace bulkhead
