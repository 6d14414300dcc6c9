#include "server/os/sockets/seqpacket.h"

#include <cerrno>

#include "server/base/error.h"
#include "server/os/sockets/connection.h"
#include "server/os/sockets/unix_address.h"

namespace bulkhead {
namespace {

constexpr int kBacklog = 128;

}  // namespace

absl::StatusOr<UniqueFd> ListenSeqPacket(const std::string& path) {
  return ListenUnix(path, SOCK_SEQPACKET, kBacklog);
}

absl::StatusOr<SeqPacketPeer> AcceptSeqPacket(int listener) {
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd fd, AcceptConnection(listener));
  BULKHEAD_ASSIGN_OR_RETURN(const ucred peer, PeerOf(fd.get()));
  return SeqPacketPeer{std::move(fd), peer.uid, peer.pid};
}

absl::Status SendSeqPacket(int fd, absl::string_view bytes, int passed_fd) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  FdMessage<1> message({&part, 1});
  AttachFds({&passed_fd, passed_fd >= 0 ? size_t{1} : 0}, message.header);
  while (sendmsg(fd, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
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
