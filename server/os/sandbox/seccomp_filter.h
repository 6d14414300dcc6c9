#ifndef BULKHEAD_SERVER_OS_SANDBOX_SECCOMP_FILTER_H_
#define BULKHEAD_SERVER_OS_SANDBOX_SECCOMP_FILTER_H_

#include "absl/status/status.h"

namespace bulkhead {

// From now on the kernel refuses this process, and all its threads, the system calls with which a
// worker could take memory that its limit does not count, start or reach other processes, open new
// connections, or change a file that was not handed to it. docs/sandbox.md has the list with
// the reason for each.
//
// A refused call fails with EPERM, so that libraries cope: clone3 alone says ENOSYS, on which the C
// library falls back to clone, whose flags a filter can see. Cannot be undone. Needs no privilege
// but no_new_privs, which it sets. One thing is left open on purpose: a process may set its own
// RLIMIT_DATA, since a worker lowers it after its warm-up; without capabilities a hard limit only
// goes down. With `own_files` files may be opened for writing, made, renamed and removed: for a
// process that something else, Landlock, holds to a folder of its own.
//
// UNAVAILABLE when the kernel has no seccomp filters.
absl::Status RestrictSystemCalls(bool own_files);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_SANDBOX_SECCOMP_FILTER_H_
