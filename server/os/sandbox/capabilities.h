#ifndef BULKHEAD_SERVER_OS_SANDBOX_CAPABILITIES_H_
#define BULKHEAD_SERVER_OS_SANDBOX_CAPABILITIES_H_

#include "absl/status/status.h"

namespace bulkhead {

// Gives up every capability of this thread and of those that it starts: effective, permitted,
// inheritable and ambient, and the bounding set where that is allowed. The user stays the same, so
// root is from now on an owner of files like any other.
absl::Status DropCapabilities();

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_SANDBOX_CAPABILITIES_H_
