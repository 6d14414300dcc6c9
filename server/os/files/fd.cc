#include "server/os/files/fd.h"

#include <fcntl.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace bulkhead {

absl::StatusOr<UniqueFd> DuplicateFd(int fd) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) return SystemError(errno, "duplicating a descriptor");
  return copy;
}

absl::Status SystemError(int error_number, absl::string_view what) {
  if (error_number == ELOOP) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, ": its symbolic links lead in a circle; repair them"));
  }
  return absl::ErrnoToStatus(error_number, what);
}

}  // namespace bulkhead
