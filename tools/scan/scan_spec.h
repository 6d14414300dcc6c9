#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead::tools {

// Specs that together make every record of the normalized `spec` into a sample once, one for each
// source: in the source's own order, without batch stages, and with what is bad left blank. In the
// spec of a mixture's source its own stages and the common ones are numbered as one list.
// SPEC_INVALID when a source cannot stand alone.
absl::StatusOr<std::vector<v1::PipelineSpec>> ScanSpecs(const v1::PipelineSpec& spec);

}  // namespace bulkhead::tools
