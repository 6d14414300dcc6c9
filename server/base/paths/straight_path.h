#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// The absolute `path` without "..". `place` returns a folder with its links resolved if it exists
// and may be read, else an empty string. A ".." after such a folder leads to its place's parent, as
// the system takes it. After any other folder it cancels the component before it, so that the
// result does not tell whether that folder exists.
std::string StraightPath(absl::string_view path,
                         absl::FunctionRef<std::string(const std::string&)> place);

}  // namespace bulkhead
