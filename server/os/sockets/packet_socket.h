#ifndef BULKHEAD_SERVER_OS_SOCKETS_PACKET_SOCKET_H_
#define BULKHEAD_SERVER_OS_SOCKETS_PACKET_SOCKET_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/os/files/fd.h"
#include "server/os/memory/memory_map.h"

namespace bulkhead {

// One message with the descriptors that came beside it.
struct Packet {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

// One end of a SOCK_SEQPACKET Unix socketpair: whole messages, in order, with descriptors beside
// them. Messages above 64 KiB travel in a sealed memfd, or, from a process that may make none (a
// worker in its sandbox), in several packets. Send is thread-safe (a packet is atomic); one thread
// receives.
class PacketSocket {
 public:
  static constexpr size_t kInlineBytes = 64 * 1024;
  static constexpr size_t kMaxFds = 8;

  PacketSocket() = default;
  explicit PacketSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  // Both ends, close-on-exec.
  static absl::StatusOr<std::pair<PacketSocket, PacketSocket>> MakePair();

  int fd() const { return fd_.get(); }

  // Sends one message; the descriptors stay the caller's. Blocks while the peer's buffer is full,
  // unless `wait` is false: then UNAVAILABLE. Errors: FAILED_PRECONDITION when the peer has closed
  // its end; PERMISSION_DENIED for a message above 64 KiB that may neither travel in a memfd nor
  // wait.
  absl::Status Send(absl::string_view bytes, const std::vector<int>& fds = {},
                    bool wait = true) const;

  // Receives one message. Blocks until there is one, unless `wait` is false: then UNAVAILABLE.
  // Errors: OUT_OF_RANGE when the peer has closed its end and everything was read; DATA_LOSS for a
  // malformed packet, and for a message above 64 KiB that is longer than `max_bytes`.
  absl::StatusOr<Packet> Receive(bool wait = true, uint64_t max_bytes = kMaxMessageBytes) const;

 private:
  // What the const functions change; apart, so that a socket can be moved.
  struct State {
    absl::Mutex sending;   // held over the packets of one message
    std::string received;  // the packets so far of a message that comes in several
  };

  absl::Status SendPacket(char where, absl::string_view bytes, const std::vector<int>& fds,
                          bool wait) const;
  // `bytes` in several packets; blocks.
  absl::Status SendParts(absl::string_view bytes, const std::vector<int>& fds) const;
  absl::StatusOr<Packet> ReceivePacket(char& where, bool wait) const;

  UniqueFd fd_;
  std::unique_ptr<State> state_ = std::make_unique<State>();
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_SOCKETS_PACKET_SOCKET_H_
