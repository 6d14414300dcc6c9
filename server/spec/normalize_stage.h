#ifndef BULKHEAD_SERVER_SPEC_NORMALIZE_STAGE_H_
#define BULKHEAD_SERVER_SPEC_NORMALIZE_STAGE_H_

#include <string>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/spec_error.h"

namespace bulkhead {

// Normalize for one stage, which stands at `path` ("stages[2]"): fills defaults in, adds what is
// wrong to `problems`.
void NormalizeStage(v1::Stage& stage, const std::string& path, SpecProblems& problems);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_NORMALIZE_STAGE_H_
