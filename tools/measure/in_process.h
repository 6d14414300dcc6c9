#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tools/common/stream_run.h"
#include "tools/common/user_code_options.h"

namespace bulkhead::tools {

struct InProcessOptions {
  std::string spec;  // path
  uint32_t threads = 1;
  uint64_t batches = 0;  // 0: all epochs of the spec, one when it has no end
  bool digest = false;
  UserCodeOptions code;
};

// Runs a spec's pipeline as a library in this process, without service, workers and transport: what
// `bench run` is compared with to learn what those cost. Each thread makes whole batches, in their
// order, into memory of its own; a last batch that is not full is made as with `last: partial` on
// one rank, or left out with `last: drop`. Rates count from the first batch to the last. Blocks.
// Errors: those of LocalPipeline.
absl::StatusOr<StreamRunReport> RunInProcess(const InProcessOptions& options);

}  // namespace bulkhead::tools
