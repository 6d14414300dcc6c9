#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace bulkhead {

// From now on this thread, and those that it starts, may open for reading only what lies in
// `readable` (files, and folders with their content), may execute nothing, and may list only those
// folders. They may make, change and remove files and folders in the folder `writable` (empty:
// none), write to /dev/null, and open nothing else for writing. Newer kernels also refuse TCP
// (unless `network`), abstract Unix sockets of others and signals to others. Open descriptors keep
// their rights. Missing paths are skipped.
//
// Cannot be undone. Sets no_new_privs. UNAVAILABLE, with the reason, if the kernel lacks Landlock
// or has it switched off.
absl::Status RestrictFiles(const std::vector<std::string>& readable, const std::string& writable,
                           bool network = false);

}  // namespace bulkhead
