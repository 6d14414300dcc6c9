#include "server/os/sockets/seqpacket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "server/os/sockets/unix_address.h"

namespace bulkhead {
namespace {

constexpr int kBacklog = 128;

}  // namespace

absl::StatusOr<UniqueFd> ListenSeqPacket(const std::string& path) {
  return ListenUnix(path, SOCK_SEQPACKET, kBacklog);
}

absl::StatusOr<SeqPacketPeer> AcceptSeqPacket(int listener) {
  SeqPacketPeer peer;
  int fd = -1;
  while ((fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) < 0) {
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return absl::UnavailableError("no client is connecting");
    return SystemError(errno, "accept");
  }
  peer.fd.reset(fd);
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return SystemError(errno, "SO_PEERCRED");
  }
  peer.uid = credentials.uid;
  peer.pid = credentials.pid;
  return peer;
}

absl::Status SendSeqPacket(int fd, absl::string_view bytes, int passed_fd) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (passed_fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &passed_fd, sizeof(int));
  }
  while (sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return absl::UnavailableError("the peer does not read its packets");
    if (errno == EPIPE || errno == ECONNRESET) {
      return absl::FailedPreconditionError("the peer hung up");
    }
    return SystemError(errno, "sendmsg");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReceiveSeqPacket(int fd, size_t max_bytes) {
  std::string bytes(max_bytes, '\0');
  iovec part{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  ssize_t count = 0;
  // Without a control buffer the kernel closes received descriptors.
  while ((count = recvmsg(fd, &header, MSG_DONTWAIT)) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return absl::UnavailableError("no packet");
    if (errno == ECONNRESET) return absl::OutOfRangeError("the peer is gone");
    return SystemError(errno, "recvmsg");
  }
  // An empty packet looks like the end of the connection; the protocol has none.
  if (count == 0) return absl::OutOfRangeError("the peer hung up");
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return absl::DataLossError("a packet is longer than the protocol allows");
  }
  bytes.resize(static_cast<size_t>(count));
  return bytes;
}

}  // namespace bulkhead
