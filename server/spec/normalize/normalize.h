#pragma once

#include "absl/status/status.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// Fills in every default of `spec` that does not depend on data (inputs, colours, interpolation,
// the last batch, the order …), chooses one of several spellings (drop_remainder becomes `last`,
// one number becomes [height, width]), and checks everything that needs neither data nor the
// features between stages; InferSignature checks those. Idempotent. Errors: INVALID_ARGUMENT
// (SPEC_INVALID), one problem a line, metadata `path` of the first.
absl::Status Normalize(v1::PipelineSpec& spec);

// The same, but adds mistakes to `problems`.
void Normalize(v1::PipelineSpec& spec, SpecProblems& problems);

// Adds, to the stages of a normalized spec, the defaults that the normal form leaves out: running
// stages find every option.
void FillImplied(v1::PipelineSpec& spec);

}  // namespace bulkhead
