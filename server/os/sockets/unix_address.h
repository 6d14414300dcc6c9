#ifndef BULKHEAD_SERVER_OS_SOCKETS_UNIX_ADDRESS_H_
#define BULKHEAD_SERVER_OS_SOCKETS_UNIX_ADDRESS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Appended to the path of a socket: the lock of the process that takes the address.
inline constexpr absl::string_view kUnixLockSuffix = ".lock";

// Holds the right to take a Unix address, of those that want it at the same moment: without it two
// services that find the socket of a dead one would each remove what the other has just made. To be
// held from before PrepareUnixAddress until the socket listens; others see then that it does.
class UnixAddressLock {
 public:
  // ALREADY_EXISTS when another service takes the address just now. Where no lock can be made the
  // folder takes no socket either, so that is left to PrepareUnixAddress to say.
  static absl::StatusOr<std::unique_ptr<UnixAddressLock>> Take(const std::string& path);
  // Gives the address back to the others, and removes the lock's file.
  ~UnixAddressLock();
  UnixAddressLock(const UnixAddressLock&) = delete;
  UnixAddressLock& operator=(const UnixAddressLock&) = delete;

 private:
  UnixAddressLock(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  const UniqueFd fd_;  // not open: there is no lock
  const std::string path_;
};

// Makes way for a Unix socket at `path`: removes what a dead service left there. Errors:
// ALREADY_EXISTS when a living service listens there or the path is something else than a socket;
// INVALID_ARGUMENT when it is longer than the system allows (107 bytes); NOT_FOUND when its folder
// does not exist.
absl::Status PrepareUnixAddress(const std::string& path);

// A socket of `type` (SOCK_STREAM, SOCK_SEQPACKET) that listens at `path`, which is made by
// PrepareUnixAddress' rules; non-blocking, close-on-exec. Its file has mode 0600 from its birth:
// only the owner may connect. At most `backlog` connections wait to be accepted, and others wait
// for them.
absl::StatusOr<UniqueFd> ListenUnix(const std::string& path, int type, int backlog);

// The same for a socket of type SOCK_STREAM.
absl::StatusOr<UniqueFd> ListenUnixStream(const std::string& path, int backlog);

// A connection of a stream listener, non-blocking and close-on-exec. The kernel keeps up to
// `send_bytes` of what was sent and not read yet, or as much of that as it grants
// (net.core.wmem_max). UNAVAILABLE if no process waits.
absl::StatusOr<UniqueFd> AcceptUnixStream(int listener, int send_bytes);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_SOCKETS_UNIX_ADDRESS_H_
