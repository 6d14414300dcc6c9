#pragma once

#include <vector>

#include "absl/status/status.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"
#include "server/spec/source_chain.h"

namespace bulkhead {

// Checks that all sources of a mixture offer the same features after their own stages: the same
// names, element types, shapes and bounds. With `outputs` given, that holds for the features that
// are outputs or read by a common stage; others may come from some sources only, and are left out.
// `sources` are known up to their own stages. Errors: INVALID_ARGUMENT (SPEC_INVALID), metadata
// `path` of the source that differs from an earlier one.
absl::Status CheckAgreement(const v1::PipelineSpec& spec, const std::vector<SourceChain>& chains,
                            const std::vector<SourceSignature>& sources);

}  // namespace bulkhead
