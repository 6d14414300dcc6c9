#pragma once

#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// Warnings about a normalized spec with `signature`: valid settings that are probably not intended,
// such as constants for another range of values, batches of one class, or slow orders. Each has its
// place and what to write instead.
std::vector<SpecProblem> LintSpec(const v1::PipelineSpec& spec, const PipelineSignature& signature);

}  // namespace bulkhead
