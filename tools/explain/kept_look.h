#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "tools/validate/cache_report.h"

namespace bulkhead::tools {

// Makes some samples of all over the first epoch of a spec with a cache stage, in this process, and
// says what the stage keeps of them. `spec` is normalized; relative paths start from `base_dir`.
// Samples that cannot be made are left out. Blocks. Errors: those of LocalPipeline::Create, also
// where stages are the user's own; FAILED_PRECONDITION when nothing was kept.
absl::StatusOr<KeptLook> LookAtKept(const v1::PipelineSpec& spec, const std::string& base_dir);

}  // namespace bulkhead::tools
