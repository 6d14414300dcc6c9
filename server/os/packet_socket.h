#ifndef BULKHEAD_SERVER_OS_PACKET_SOCKET_H_
#define BULKHEAD_SERVER_OS_PACKET_SOCKET_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/os/fd.h"
#include "server/os/memory_map.h"

namespace bulkhead {

// One message with the descriptors that came beside it.
struct Packet {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

// One end of a SOCK_SEQPACKET Unix socketpair: whole messages, in order, with descriptors beside
// them. Messages above 64 KiB travel in a sealed memfd. Send is thread-safe (a packet is atomic);
// one thread receives.
class PacketSocket {
 public:
  static constexpr size_t kInlineBytes = 64 * 1024;
  static constexpr size_t kMaxFds = 8;

  PacketSocket() = default;
  explicit PacketSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  // Both ends, close-on-exec.
  static absl::StatusOr<std::pair<PacketSocket, PacketSocket>> MakePair();

  int fd() const { return fd_.get(); }
  UniqueFd TakeFd() { return std::move(fd_); }

  // Sends one message; the descriptors stay the caller's. Blocks while the peer's buffer is full,
  // unless `wait` is false: then UNAVAILABLE. Errors: FAILED_PRECONDITION when the peer has closed
  // its end.
  absl::Status Send(absl::string_view bytes, const std::vector<int>& fds = {},
                    bool wait = true) const;

  // Receives one message. Blocks until there is one, unless `wait` is false: then UNAVAILABLE.
  // Errors: OUT_OF_RANGE when the peer has closed its end and everything was read; DATA_LOSS for a
  // malformed packet, and for a message above 64 KiB that is longer than `max_bytes`.
  absl::StatusOr<Packet> Receive(bool wait = true, uint64_t max_bytes = kMaxMessageBytes) const;

 private:
  UniqueFd fd_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_PACKET_SOCKET_H_
