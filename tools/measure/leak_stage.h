#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/loader.h"
#include "tools/local/temporary_folder.h"
#include "tools/measure/leak.h"

namespace bulkhead::tools {

// A spec with one more stage, which leaks, or takes and gives back as much: the last one, and
// without an end.
struct LeakStage {
  SpecSource spec;
  std::vector<std::string> service_arguments;  // what a service needs to be told to run it
  TemporaryFolder folder;                      // of the Python module; none: there is no such
};

// With the spec, the leak and the interval of `options`. `fault`: leak, leak_mmap, touch; python,
// python_touch: a Python function. Errors: those of the spec; INVALID_ARGUMENT for the leak's
// bytes.
absl::StatusOr<LeakStage> MakeLeakStage(const LeakOptions& options, const std::string& fault);

}  // namespace bulkhead::tools
