#pragma once

#include "absl/status/status.h"

namespace bulkhead {

// Drops every capability of this thread and of those that it starts: effective, permitted,
// inheritable and ambient, and the bounding set where allowed. The user stays the same, so root
// then has the rights of any file owner.
absl::Status DropCapabilities();

}  // namespace bulkhead
