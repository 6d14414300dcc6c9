#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead {

// Where the user's function was, human-readable: "augment.py:7 in blur; called from augment.py:21
// in augment". `dump` is faulthandler's output for all threads of a worker; the thread shown is the
// one that the worker's host (server/worker/python) had called. Empty if that thread's part is
// missing or incomplete. At most kMaxPythonStackBytes of UTF-8, whatever the untrusted `dump`
// holds.
std::string DescribePythonStack(absl::string_view dump);

// The same of the current thread, to which the crash happened that made the worker write `dump`.
// Empty, too, if that thread is not one that the host had called.
std::string DescribeCrashedStack(absl::string_view dump);

inline constexpr size_t kMaxPythonStackBytes = 1024;
// Of a dump that is read: what faulthandler writes for a hundred threads.
inline constexpr size_t kMaxStacksBytes = size_t{256} << 10;

}  // namespace bulkhead
