#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "tools/common/user_code_options.h"

namespace bulkhead::tools {

// What a worker would be told of its sandbox, for processes of the tools that run user code: they
// enter the same sandbox by the same code (server/worker/worker_sandbox.h).
struct Confinement {
  internal::v1::Bind bind;
  internal::v1::PipelineBinding binding;

  // That of a worker of an embedded service without roots, which may read what its user may: the
  // data lie anywhere, as for LocalData. `scratch`: the folder that the process will make, and
  // write to. Error: INVALID_ARGUMENT for parts of the sandbox that do not exist.
  static absl::StatusOr<Confinement> Of(const UserCodeOptions& options, const std::string& scratch);
};

}  // namespace bulkhead::tools
