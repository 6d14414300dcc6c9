#pragma once

#include "absl/status/status.h"

namespace bulkhead {

// From now on the kernel refuses this process, and all its threads, the system calls with which a
// worker could take memory that its limit does not count, start or reach other processes, open new
// connections, or change files that it was not given. docs/sandbox.md lists them with the reasons.
//
// A refused call fails with EPERM, which libraries can handle. Only clone3 fails with ENOSYS, so
// that the C library falls back to clone, whose flags a filter can see. Cannot be undone. Needs no
// privilege except no_new_privs, which it sets. A process may still set its own RLIMIT_DATA,
// because a worker lowers it after its warm-up; without capabilities a hard limit can only go down.
// With `own_files` files may be opened for writing, made, renamed and removed, in a process that
// Landlock confines to a folder of its own. With `fetches` it may
// open connections, and make and cut such files.
//
// UNAVAILABLE if the kernel has no seccomp filters.
absl::Status RestrictSystemCalls(bool own_files, bool fetches = false);

}  // namespace bulkhead
