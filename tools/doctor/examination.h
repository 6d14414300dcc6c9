#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/common/progress_line.h"
#include "tools/doctor/diagnosis.h"
#include "tools/doctor/stage_input.h"

namespace bulkhead::tools {

struct ExaminationOptions {
  std::string spec;
  uint64_t samples = 0;                   // of each run
  InputChoice input;                      // of stages that run alone
  std::string sandbox;                    // its parts, as --sandbox has them; empty: all
  std::vector<std::string> service_args;  // of bulkheadd
};

// Runs the spec whole, its prefixes, and each of its common stages alone, in workers of a service
// of its own, and judges every run. Shows on `line` how far it is. Blocks. Errors: those of reading
// the spec and of starting the service; that of the whole spec's stream, if no worker began with
// it.
absl::StatusOr<Diagnosis> Examine(const ExaminationOptions& options, ProgressLine& line);

}  // namespace bulkhead::tools
