#include "server/os/fd.h"

namespace bulkhead {

absl::Status SystemError(int error_number, absl::string_view what) {
  return absl::ErrnoToStatus(error_number, what);
}

}  // namespace bulkhead
