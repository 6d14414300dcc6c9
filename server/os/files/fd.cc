#include "server/os/files/fd.h"

#include <fcntl.h>

#include <cerrno>

namespace bulkhead {

absl::StatusOr<UniqueFd> DuplicateFd(int fd) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) return SystemError(errno, "duplicating a descriptor");
  return copy;
}

absl::Status SystemError(int error_number, absl::string_view what) {
  return absl::ErrnoToStatus(error_number, what);
}

}  // namespace bulkhead
