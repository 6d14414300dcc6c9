#include "server/os/sandbox/capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "server/os/files/fd.h"

namespace bulkhead {

absl::Status DropCapabilities() {
  // Needs CAP_SETPCAP. Without it the bounding set may stay: it only allows gains by exec, which
  // no_new_privs forbids.
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) break;
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capset, &header, none) != 0) return SystemError(errno, "dropping capabilities");
  return absl::OkStatus();
}

}  // namespace bulkhead
