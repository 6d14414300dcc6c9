#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tools/common/progress_line.h"
#include "tools/common/user_code_options.h"
#include "tools/doctor/diagnosis.h"
#include "tools/doctor/stage_input.h"

namespace bulkhead::tools {

struct ExaminationOptions {
  std::string spec;
  uint64_t samples = 2000;  // of each run
  InputChoice input;        // of stages that run alone
  std::string quota;        // of the worker; empty: that of bulkheadd
  std::string budget;       // of the service; empty: likewise
  UserCodeOptions user_code;
};

// Runs the spec whole, its prefixes, and each of its common stages alone, in workers of a service
// of its own, and judges every run. Shows on `line` how far it is. Blocks. Errors: those of reading
// the spec and of starting the service; that of the whole spec's stream, if no worker began with
// it.
absl::StatusOr<Diagnosis> Examine(const ExaminationOptions& options, ProgressLine& line);

}  // namespace bulkhead::tools
