#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/credentials.h"

namespace bulkhead::client_internal {

// An address, and by what the service there and this client know each other.
struct Target {
  std::string address;  // empty: none was given
  Credentials credentials;
};

// What `target` means: an address, or the name of a target file (*.yaml, *.yml), which is YAML with
// a line for each of `target`, `ca`, `cert`, `key`, `token_file` and `socket_user`, and a text
// behind it; or FILE#ADDRESS, one of the services that the file names. What `credentials` say
// counts before the file, and that before the environment. INVALID_ARGUMENT with file and line for
// a target file that cannot be used, and CREDENTIALS_INVALID for a file that it names. Its twin is
// client/python/bulkhead/_service/target_file.py.
absl::StatusOr<Target> ResolveTarget(const std::string& target, Credentials credentials);

bool IsTargetFile(absl::string_view target);

// The services of an address: `a:1, b:2` has two. Each once.
std::vector<std::string> ServicesIn(const std::string& address);

// The address in a target file.
absl::StatusOr<std::string> AddressIn(const std::string& path);

}  // namespace bulkhead::client_internal
