#include "server/os/sockets/packet_socket.h"

#include <cerrno>

#include "server/base/error.h"
#include "server/os/sockets/connection.h"

namespace bulkhead {
namespace {

// The first byte of every packet tells where its message is.
constexpr char kInline = 'i';
constexpr char kInMemfd = 'm';  // in the first descriptor
constexpr char kPart = 'p';     // continued in the next packet

}  // namespace

absl::StatusOr<std::pair<PacketSocket, PacketSocket>> PacketSocket::MakePair() {
  BULKHEAD_ASSIGN_OR_RETURN(auto ends, SocketPair(SOCK_SEQPACKET));
  auto& [one, other] = ends;
  return std::make_pair(PacketSocket(std::move(one)), PacketSocket(std::move(other)));
}

absl::Status PacketSocket::Send(absl::string_view bytes, const std::vector<int>& fds,
                                bool wait) const {
  if (wait) {
    state_->sending.Lock();
  } else if (!state_->sending.TryLock()) {
    return absl::UnavailableError("another thread is sending");
  }
  absl::Status sent = SendLocked(bytes, fds, wait);
  state_->sending.Unlock();
  return sent;
}

absl::Status PacketSocket::SendLocked(absl::string_view bytes, const std::vector<int>& fds,
                                      bool wait) const {
  if (bytes.size() <= kInlineBytes) return SendPacket(kInline, bytes, fds, wait);
  const absl::StatusOr<UniqueFd> memfd = CreateSealedMessage(bytes);
  if (absl::IsPermissionDenied(memfd.status()) && wait) return SendParts(bytes, fds);
  if (!memfd.ok()) return memfd.status();
  std::vector<int> all_fds = {memfd->get()};
  all_fds.insert(all_fds.end(), fds.begin(), fds.end());
  return SendPacket(kInMemfd, absl::string_view(), all_fds, wait);
}

absl::Status PacketSocket::SendParts(absl::string_view bytes, const std::vector<int>& fds) const {
  for (; bytes.size() > kInlineBytes; bytes.remove_prefix(kInlineBytes)) {
    const absl::Status sent = SendPacket(kPart, bytes.substr(0, kInlineBytes), {}, /*wait=*/true);
    if (!sent.ok()) return sent;
  }
  return SendPacket(kInline, bytes, fds, /*wait=*/true);
}

absl::Status PacketSocket::SendPacket(char where, absl::string_view bytes,
                                      const std::vector<int>& fds, bool wait) const {
  if (fds.size() > kMaxFds) return absl::InvalidArgumentError("too many descriptors");
  iovec parts[2] = {{&where, 1}, {const_cast<char*>(bytes.data()), bytes.size()}};
  FdMessage<kMaxFds> message(absl::MakeSpan(parts, bytes.empty() ? 1 : 2));
  AttachFds(fds, message.header);
  const int flags = MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT);
  while (sendmsg(fd_.get(), &message.header, flags) < 0) {
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
  std::string& received = state_->received;
  while (true) {
    char where = 0;
    absl::StatusOr<Packet> packet = ReceivePacket(where, wait);
    if (!packet.ok()) return packet;
    if (where == kInMemfd) {
      if (packet->fds.empty()) return absl::DataLossError("a message's memory did not arrive");
      BULKHEAD_ASSIGN_OR_RETURN(packet->bytes,
                                ReadSealedMessage(packet->fds.front().get(), max_bytes));
      packet->fds.erase(packet->fds.begin());
      return packet;
    }
    if (where != kPart && received.empty()) return packet;
    // Only full packets, so that a peer cannot keep us busy with many empty ones.
    const bool short_part = where == kPart && packet->bytes.size() != kInlineBytes;
    if (short_part || received.size() + packet->bytes.size() > max_bytes) {
      received.clear();
      return absl::DataLossError("a message in parts is malformed or too long");
    }
    received += packet->bytes;
    if (where == kPart) continue;
    packet->bytes = std::exchange(received, {});
    return packet;
  }
}

absl::StatusOr<Packet> PacketSocket::ReceivePacket(char& where, bool wait) const {
  // Reused, because most packets are a thousand times smaller.
  thread_local const std::unique_ptr<char[]> buffer(new char[kInlineBytes]);
  iovec parts[2] = {{&where, 1}, {buffer.get(), kInlineBytes}};
  FdMessage<kMaxFds> message(absl::MakeSpan(parts));
  const int flags = MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT);
  ssize_t count = 0;
  while ((count = recvmsg(fd_.get(), &message.header, flags)) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return absl::UnavailableError("no message");
    if (errno == ECONNRESET) return absl::OutOfRangeError("the peer is gone");
    return SystemError(errno, "recvmsg");
  }
  if (count == 0) return absl::OutOfRangeError("the peer has closed the connection");

  Packet packet{{}, TakeFds(message.header)};
  if ((message.header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return absl::DataLossError("a packet was longer than the protocol allows");
  }
  packet.bytes.assign(buffer.get(), static_cast<size_t>(count) - 1);
  return packet;
}

}  // namespace bulkhead
