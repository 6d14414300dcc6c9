#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Suffix of the lock file of a socket's path.
inline constexpr absl::string_view kUnixLockSuffix = ".lock";

// A lock on taking a Unix address. Without it, two services that find a dead one's socket would
// each remove what the other has just made. Hold it from before PrepareUnixAddress until the socket
// listens, which other services can see.
class UnixAddressLock {
 public:
  // ALREADY_EXISTS if another service is taking the address. If no lock can be made,
  // PrepareUnixAddress will fail and tell why.
  static absl::StatusOr<std::unique_ptr<UnixAddressLock>> Take(const std::string& path);
  // Releases the lock and removes its file.
  ~UnixAddressLock();
  UnixAddressLock(const UnixAddressLock&) = delete;
  UnixAddressLock& operator=(const UnixAddressLock&) = delete;

 private:
  UnixAddressLock(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  const UniqueFd fd_;  // closed: there is no lock
  const std::string path_;
};

// Removes what a dead service left at `path`. Errors: ALREADY_EXISTS if a living service listens
// there or the path is not a socket; INVALID_ARGUMENT if it is longer than the system allows (107
// bytes); NOT_FOUND if its folder does not exist.
absl::Status PrepareUnixAddress(const std::string& path);

// The file of a socket that listens, made when it has been bound. An empty path: it has none.
class SocketFile {
 public:
  explicit SocketFile(std::string path);

  // Removes it; not a file that has come in its place. What stays is replaced by the next service.
  void Remove() const;

 private:
  const std::string path_;
  std::pair<dev_t, ino_t> identity_{};
};

// Whether a process listens for stream connections at `path`. Does not wait.
bool IsUnixListener(const std::string& path);

// The absolute paths of the stream sockets at which processes of this user listen whose program is
// called `program` (/proc/PID/comm), sorted. Those of other PID namespaces are not seen.
std::vector<std::string> ListeningPathsOf(const std::string& program);

// Lets NotedAddressesOf find `address`, "127.0.0.1:8000", as long as the result is open: a socket
// with an abstract name, at which nobody listens and which leaves no file.
absl::StatusOr<UniqueFd> NoteAddress(absl::string_view address);

// What processes of this user whose program is called `program` have given NoteAddress, sorted.
// Those of other PID or network namespaces are not seen.
std::vector<std::string> NotedAddressesOf(const std::string& program);

// A socket of `type` (SOCK_STREAM, SOCK_SEQPACKET) that listens at `path` (prepared by
// PrepareUnixAddress). Non-blocking, close-on-exec. Its file has mode 0600 from the start, so only
// the owner may connect. At most `backlog` connections wait to be accepted; others wait for them.
absl::StatusOr<UniqueFd> ListenUnix(const std::string& path, int type, int backlog);

// The same for a socket of type SOCK_STREAM.
absl::StatusOr<UniqueFd> ListenUnixStream(const std::string& path, int backlog);

// A connection of a stream listener, non-blocking and close-on-exec. Its send buffer holds
// `send_bytes`, or as much as the kernel grants (net.core.wmem_max). UNAVAILABLE if no process
// waits.
absl::StatusOr<UniqueFd> AcceptUnixStream(int listener, int send_bytes);

}  // namespace bulkhead
