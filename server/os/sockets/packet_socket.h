#pragma once

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

// One message and its descriptors.
struct Packet {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

// One end of a SOCK_SEQPACKET Unix socketpair: whole messages in order, with descriptors. Messages
// above 64 KiB travel in a sealed memfd or, from a process that cannot make one (a sandboxed
// worker), in several packets. Send is thread-safe (a packet is atomic); one thread receives.
class PacketSocket {
 public:
  static constexpr size_t kInlineBytes = 64 * 1024;
  static constexpr size_t kMaxFds = 8;

  PacketSocket() = default;
  explicit PacketSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  // Both ends, close-on-exec.
  static absl::StatusOr<std::pair<PacketSocket, PacketSocket>> MakePair();

  int fd() const { return fd_.get(); }

  // Sends one message; the caller keeps owning the descriptors. Blocks while the peer's buffer is
  // full or another thread sends, or with `wait` false returns UNAVAILABLE. Errors:
  // FAILED_PRECONDITION if the peer has closed its end; PERMISSION_DENIED for a message above 64
  // KiB that can neither use a memfd nor wait.
  absl::Status Send(absl::string_view bytes, const std::vector<int>& fds = {},
                    bool wait = true) const;

  // Receives one message. Blocks until there is one, or with `wait` false returns UNAVAILABLE.
  // Errors: OUT_OF_RANGE if the peer has closed its end and everything was read; DATA_LOSS for a
  // malformed packet, and for a message above 64 KiB that exceeds `max_bytes`.
  absl::StatusOr<Packet> Receive(bool wait = true, uint64_t max_bytes = kMaxMessageBytes) const;

 private:
  // Changed by const functions; separate, so that a socket can be moved.
  struct State {
    absl::Mutex sending;   // held for all packets of a message
    std::string received;  // earlier packets of an unfinished message
  };

  absl::Status SendLocked(absl::string_view bytes, const std::vector<int>& fds, bool wait) const;
  absl::Status SendPacket(char where, absl::string_view bytes, const std::vector<int>& fds,
                          bool wait) const;
  // Sends `bytes` in several packets; blocks.
  absl::Status SendParts(absl::string_view bytes, const std::vector<int>& fds) const;
  absl::StatusOr<Packet> ReceivePacket(char& where, bool wait) const;

  UniqueFd fd_;
  std::unique_ptr<State> state_ = std::make_unique<State>();
};

}  // namespace bulkhead
