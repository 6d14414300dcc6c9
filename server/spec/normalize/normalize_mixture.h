#pragma once

#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// Normalize for a spec whose source is a mixture: its sources, each with its own features, order
// and stages. Fills in defaults and adds mistakes to `problems`, including options at the top of
// the spec that belong to each source. InferSignature checks whether the sources offer the same
// features.
void NormalizeMixture(v1::PipelineSpec& spec, SpecProblems& problems);

}  // namespace bulkhead
