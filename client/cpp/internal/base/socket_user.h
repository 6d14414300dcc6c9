#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace bulkhead::client_internal {

// Checks who listens at the other end of a connected Unix socket: this process's user, root, or
// `allowed`, a name or a number (empty: nobody else). PERMISSION_DENIED (UNTRUSTED_SERVICE) for
// anybody else; INVALID_ARGUMENT when `allowed` is no user.
absl::Status CheckSocketUser(int fd, const std::string& path, const std::string& allowed);

// The same where user `peer` listens and this process is user `own`'s.
absl::Status CheckUser(uid_t peer, uid_t own, const std::string& path, const std::string& allowed);

}  // namespace bulkhead::client_internal
