#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Listens at `path` (prepared by PrepareUnixAddress) for SOCK_SEQPACKET connections of this user
// only. Non-blocking, close-on-exec.
absl::StatusOr<UniqueFd> ListenSeqPacket(const std::string& path);

// An accepted connection, non-blocking and close-on-exec, and its maker (SO_PEERCRED).
struct SeqPacketPeer {
  UniqueFd fd;
  uid_t uid = 0;
  pid_t pid = 0;  // 0 if it is outside this PID namespace
};

// UNAVAILABLE if no process waits.
absl::StatusOr<SeqPacketPeer> AcceptSeqPacket(int listener);

// Sends one packet, with a descriptor unless `passed_fd` is negative. Never blocks: UNAVAILABLE
// while the peer's buffer is full, FAILED_PRECONDITION if it hung up.
absl::Status SendSeqPacket(int fd, absl::string_view bytes, int passed_fd = -1);

// Receives one packet of at most `max_bytes`; closes descriptors sent with it. Never blocks:
// UNAVAILABLE if there is no packet; OUT_OF_RANGE if the peer hung up; DATA_LOSS for a longer
// packet.
absl::StatusOr<std::string> ReceiveSeqPacket(int fd, size_t max_bytes);

}  // namespace bulkhead
