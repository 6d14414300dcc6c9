#ifndef BULKHEAD_SERVER_SPEC_LINT_H_
#define BULKHEAD_SERVER_SPEC_LINT_H_

#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// What is allowed in a spec, which is normalized and has `signature`, but is most probably not what
// its writer wants: constants for other values than they meet, batches of one class, orders that
// cost much. Each with its place and what to write instead.
std::vector<SpecProblem> LintSpec(const v1::PipelineSpec& spec, const PipelineSignature& signature);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_LINT_H_
