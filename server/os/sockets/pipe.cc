#include "server/os/sockets/pipe.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

namespace bulkhead {

absl::StatusOr<Pipe> Pipe::Make() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) return SystemError(errno, "pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

void ReadAvailable(int fd, size_t most_bytes, std::string& text) {
  // Enough rounds to empty a full pipe, so that a busy writer delays no one.
  for (int round = 0; round < 16; ++round) {
    char buffer[4096];
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    const size_t room = most_bytes - std::min(most_bytes, text.size());
    text.append(buffer, std::min(room, static_cast<size_t>(count)));
  }
}

}  // namespace bulkhead
