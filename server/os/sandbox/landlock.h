#ifndef BULKHEAD_SERVER_OS_SANDBOX_LANDLOCK_H_
#define BULKHEAD_SERVER_OS_SANDBOX_LANDLOCK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace bulkhead {

// From now on this thread, and those that it starts, may open for reading what lies in `readable`
// (folders with all that is beneath them, and files), and nothing else: no other file for reading,
// none for execution; folders that are not named cannot be listed. In the folder `writable`, unless
// that is empty, it may make, change and remove files and folders, and it may write to /dev/null;
// elsewhere it opens nothing for writing. Where the
// kernel's Landlock knows of them it also refuses TCP, abstract Unix sockets of others and signals
// to others. Descriptors that are open stay what they are. Paths that do not exist are skipped.
//
// Cannot be undone. Sets no_new_privs. UNAVAILABLE, with the reason for people, when the kernel has
// no Landlock or has it switched off.
absl::Status RestrictFiles(const std::vector<std::string>& readable, const std::string& writable);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_SANDBOX_LANDLOCK_H_
