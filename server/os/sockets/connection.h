#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Both ends of a new Unix connection of `type` (SOCK_STREAM, SOCK_SEQPACKET), close-on-exec.
absl::StatusOr<std::pair<UniqueFd, UniqueFd>> SocketPair(int type);

// A connection of a listener of any family, non-blocking and close-on-exec. UNAVAILABLE if no
// client is connecting.
absl::StatusOr<UniqueFd> AcceptConnection(int listener);

// Who made the other end of a Unix connection (SO_PEERCRED); its pid is 0 if it is outside this PID
// namespace.
absl::StatusOr<ucred> PeerOf(int connection);

// Descriptors beside a message (SCM_RIGHTS): gives the message `fds`, for which its control buffer
// has room; takes those that came with one.
void AttachFds(absl::Span<const int> fds, msghdr& message);
std::vector<UniqueFd> TakeFds(msghdr& message);

// The header of a message whose bytes lie in `parts`, with room for descriptors.
template <size_t kMostFds>
struct FdMessage {
  explicit FdMessage(absl::Span<iovec> parts) {
    header.msg_iov = parts.data();
    header.msg_iovlen = parts.size();
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
  FdMessage(const FdMessage&) = delete;
  FdMessage& operator=(const FdMessage&) = delete;

  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostFds)] = {};
  msghdr header = {};
};

}  // namespace bulkhead
