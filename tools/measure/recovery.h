#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/loader.h"
#include "tools/common/user_code_options.h"

namespace bulkhead::tools {

struct RecoveryOptions {
  std::string spec;
  int trials = 30;  // of each fault
  uint64_t seed = 1;
  Transport transport = Transport::kAuto;
  UserCodeOptions code;
};

// What a fault costs a trainer that takes batches as fast as they come.
struct FaultCost {
  // Of each trial: the longest gap between two batches from the fault on, less the median gap.
  std::vector<double> seconds;
  double median_gap_seconds = 0;  // between batches, away from faults
};

struct RecoveryReport {
  FaultCost worker_kill;         // one of two workers
  FaultCost worker_kill_single;  // the only one
  FaultCost service_kill;        // two workers; the service is started again at once
};

// Streams the spec from services of its own on a Unix socket and kills with SIGKILL at
// random times (from `seed`). Blocks for minutes; `tell` is called before each trial.
absl::StatusOr<RecoveryReport> MeasureRecovery(const RecoveryOptions& options,
                                               const std::function<void(const std::string&)>& tell);

}  // namespace bulkhead::tools
