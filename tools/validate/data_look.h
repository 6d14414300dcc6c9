#pragma once

#include <string>

#include "tools/validate/spec_report.h"

namespace bulkhead::tools {

// Counts in this process, by indexing the files. Blocks; errors as LocalData::Create's.
absl::StatusOr<DataCounts> CountHere(const v1::PipelineSpec& spec, const std::string& base_dir);

// Asks a service, which looks where its trainers' data are. Blocks; errors of the service.
absl::StatusOr<DataCounts> CountAt(const std::string& target, const v1::PipelineSpec& spec,
                                   const std::string& base_dir);

// Makes some samples of all over the first epoch of a spec with a cache stage, in this process, and
// says what the stage keeps of them. `spec` is normalized; relative paths start from `base_dir`.
// Samples that cannot be made are left out. Blocks. Errors: those of LocalPipeline::Create, also
// where stages are the user's own; FAILED_PRECONDITION when nothing was kept.
absl::StatusOr<KeptLook> LookAtKept(const v1::PipelineSpec& spec, const std::string& base_dir);

}  // namespace bulkhead::tools
