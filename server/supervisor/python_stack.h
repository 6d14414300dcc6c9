#ifndef BULKHEAD_SERVER_SUPERVISOR_PYTHON_STACK_H_
#define BULKHEAD_SERVER_SUPERVISOR_PYTHON_STACK_H_

#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead {

// Where the user's function was, for people: "augment.py:7 in blur; called from augment.py:21 in
// augment". `dump` is what Python's faulthandler wrote of all threads of a worker; the thread that
// is meant is the one that the worker's host (server/worker/python) had called. Empty when that
// thread's part is not there, or not yet. At most kMaxPythonStackBytes of UTF-8, whatever `dump`
// holds: the worker wrote it.
std::string DescribePythonStack(absl::string_view dump);

inline constexpr size_t kMaxPythonStackBytes = 1024;

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_PYTHON_STACK_H_
