#include "server/os/packet_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace bulkhead {
namespace {

// First byte of every packet: where its message is.
constexpr char kInline = 'i';
constexpr char kInMemfd = 'm';  // in the first descriptor

}  // namespace

absl::StatusOr<std::pair<PacketSocket, PacketSocket>> PacketSocket::MakePair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return SystemError(errno, "socketpair");
  }
  return std::make_pair(PacketSocket(UniqueFd(fds[0])), PacketSocket(UniqueFd(fds[1])));
}

absl::Status PacketSocket::Send(absl::string_view bytes, const std::vector<int>& fds,
                                bool wait) const {
  std::vector<int> all_fds;
  UniqueFd message;
  char where = kInline;
  if (bytes.size() > kInlineBytes) {
    absl::StatusOr<UniqueFd> memfd = CreateSealedMessage(bytes);
    if (!memfd.ok()) return memfd.status();
    message = *std::move(memfd);
    all_fds.push_back(message.get());
    where = kInMemfd;
    bytes = absl::string_view();
  }
  all_fds.insert(all_fds.end(), fds.begin(), fds.end());
  if (all_fds.size() > kMaxFds) return absl::InvalidArgumentError("too many descriptors");

  iovec parts[2] = {{&where, 1}, {const_cast<char*>(bytes.data()), bytes.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)] = {};
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = bytes.empty() ? 1 : 2;
  if (!all_fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * all_fds.size());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * all_fds.size());
    std::memcpy(CMSG_DATA(rights), all_fds.data(), sizeof(int) * all_fds.size());
  }
  while (sendmsg(fd_.get(), &header, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT)) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return absl::UnavailableError("the peer does not read its messages");
    if (errno == EPIPE || errno == ECONNRESET) {
      return absl::FailedPreconditionError("the peer has closed the connection");
    }
    return SystemError(errno, "sendmsg");
  }
  return absl::OkStatus();
}

absl::StatusOr<Packet> PacketSocket::Receive(bool wait, uint64_t max_bytes) const {
  char where = 0;
  std::string buffer(kInlineBytes, '\0');
  iovec parts[2] = {{&where, 1}, {buffer.data(), buffer.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = 2;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t count = 0;
  while ((count = recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT))) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return absl::UnavailableError("no message");
    if (errno == ECONNRESET) return absl::OutOfRangeError("the peer is gone");
    return SystemError(errno, "recvmsg");
  }
  if (count == 0) return absl::OutOfRangeError("the peer has closed the connection");

  Packet packet;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t fd_count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < fd_count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      packet.fds.emplace_back(fd);
    }
  }
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return absl::DataLossError("a packet was longer than the protocol allows");
  }
  if (where == kInMemfd) {
    if (packet.fds.empty()) return absl::DataLossError("a message's memory did not arrive");
    absl::StatusOr<std::string> bytes = ReadSealedMessage(packet.fds.front().get(), max_bytes);
    if (!bytes.ok()) return bytes.status();
    packet.bytes = *std::move(bytes);
    packet.fds.erase(packet.fds.begin());
    return packet;
  }
  buffer.resize(static_cast<size_t>(count) - 1);
  packet.bytes = std::move(buffer);
  return packet;
}

}  // namespace bulkhead
