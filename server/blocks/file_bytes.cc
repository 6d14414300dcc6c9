#include "server/blocks/file_bytes.h"

#include <unistd.h>

#include <cerrno>

#include "server/os/files/fd.h"

namespace bulkhead {

bool ReadFileBytes(int fd, uint64_t offset, char* to, size_t size) {
  while (size > 0) {
    const ssize_t got = pread(fd, to, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return true;
}

absl::Status WriteFileBytes(int fd, uint64_t offset, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return SystemError(put == 0 ? ENOSPC : errno, "writing to the block cache");
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return absl::OkStatus();
}

}  // namespace bulkhead
