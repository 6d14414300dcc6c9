#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// A descriptor with several owners.
using SharedFd = std::shared_ptr<const UniqueFd>;

// Packs any number of descriptors into one, a socket, so that one message can carry them.
// RESOURCE_EXHAUSTED at the kernel's limit: a user may have as many descriptors in flight as one
// process may have open.
absl::StatusOr<UniqueFd> PackFds(const std::vector<SharedFd>& fds);

// Removes the parcel, the only socket, from a message's descriptors and returns it; closed if there
// is none.
UniqueFd TakeParcel(std::vector<UniqueFd>& fds);

// The descriptors in a parcel, in order; none if it is closed. RESOURCE_EXHAUSTED if this process
// may not open as many. Does not block.
absl::StatusOr<std::vector<UniqueFd>> UnpackFds(const UniqueFd& parcel);

// Raises the limit of open descriptors of this process, and of those it starts, to the system's
// maximum.
void RaiseFdLimit();
// That limit.
uint64_t FdLimit();

}  // namespace bulkhead
