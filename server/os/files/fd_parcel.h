#ifndef BULKHEAD_SERVER_OS_FILES_FD_PARCEL_H_
#define BULKHEAD_SERVER_OS_FILES_FD_PARCEL_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// A descriptor that several hold.
using SharedFd = std::shared_ptr<const UniqueFd>;

// Many descriptors in one, a socket: so that a message carries them, however many they are.
// RESOURCE_EXHAUSTED when the kernel takes no more: each user may have as many under way as one of
// his processes may have open.
absl::StatusOr<UniqueFd> PackFds(const std::vector<SharedFd>& fds);

// Takes a parcel, the one socket among them, out of what a message carried. Not open: there is
// none.
UniqueFd TakeParcel(std::vector<UniqueFd>& fds);

// What is in a parcel, in its order; nothing in one that is not open. RESOURCE_EXHAUSTED when this
// process may not have so many open. Does not block.
absl::StatusOr<std::vector<UniqueFd>> UnpackFds(const UniqueFd& parcel);

// Lets this process, and those that it starts, have as many descriptors open as the system allows.
void RaiseFdLimit();
// How many that are.
uint64_t FdLimit();

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_FILES_FD_PARCEL_H_
