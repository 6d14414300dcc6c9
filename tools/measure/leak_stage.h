#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/loader.h"
#include "tools/local/temporary_folder.h"

namespace bulkhead::tools {

// A spec with one more stage, which leaks, or takes and gives back as much: the last one, and
// without an end. Its files go with this object.
class LeakStage {
 public:
  struct Options {
    std::string spec;    // path
    std::string fault;   // leak, leak_mmap, touch; python, python_touch: a Python function
    std::string bytes;   // "1MiB"
    uint64_t every = 1;  // samples
  };
  // Errors: those of the spec; INVALID_ARGUMENT for `bytes`.
  static absl::StatusOr<LeakStage> Create(const Options& options);

  const SpecSource& spec() const { return spec_; }
  // What a service needs to be told to run it.
  std::vector<std::string> service_arguments() const;

 private:
  LeakStage() = default;
  absl::Status WriteModule(uint64_t bytes, uint64_t every);

  SpecSource spec_;
  TemporaryFolder folder_;  // of the Python module; none: there is no such
};

}  // namespace bulkhead::tools
