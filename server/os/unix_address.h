#ifndef BULKHEAD_SERVER_OS_UNIX_ADDRESS_H_
#define BULKHEAD_SERVER_OS_UNIX_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace bulkhead {

// Makes way for a Unix socket at `path`: removes what a dead service left there. Errors:
// ALREADY_EXISTS when a living service listens there or the path is something else than a socket;
// INVALID_ARGUMENT when it is longer than the system allows (107 bytes); NOT_FOUND when its folder
// does not exist.
absl::Status PrepareUnixAddress(const std::string& path);

// Only the owner may connect (mode 0600).
absl::Status MakePrivate(const std::string& path);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_UNIX_ADDRESS_H_
