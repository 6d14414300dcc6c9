#include "server/os/sockets/connection.h"

#include <cerrno>
#include <cstring>

namespace bulkhead {

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> SocketPair(int type) {
  int ends[2];
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError(errno, "socketpair");
  }
  return std::make_pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

absl::StatusOr<UniqueFd> AcceptConnection(int listener) {
  for (;;) {
    UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) return fd;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return absl::UnavailableError("no client is connecting");
    return SystemError(errno, "accept");
  }
}

absl::StatusOr<ucred> PeerOf(int connection) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return SystemError(errno, "SO_PEERCRED");
  }
  return peer;
}

void AttachFds(absl::Span<const int> fds, msghdr& message) {
  const size_t bytes = sizeof(int) * fds.size();
  message.msg_controllen = fds.empty() ? 0 : CMSG_SPACE(bytes);
  if (fds.empty()) return;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(rights), fds.data(), bytes);
}

std::vector<UniqueFd> TakeFds(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (size_t i = 0; i < (part->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace bulkhead
