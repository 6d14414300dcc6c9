#pragma once

#include <string>

#include "tools/validate/validate_command.h"

namespace bulkhead::tools {

// Counts in this process, by indexing the files. Blocks; errors as LocalData::Create's.
absl::StatusOr<DataCounts> CountHere(const v1::PipelineSpec& spec, const std::string& base_dir);

// Asks a service, which looks where its trainers' data are. Blocks; errors of the service.
absl::StatusOr<DataCounts> CountAt(const std::string& target, const v1::PipelineSpec& spec,
                                   const std::string& base_dir);

}  // namespace bulkhead::tools
