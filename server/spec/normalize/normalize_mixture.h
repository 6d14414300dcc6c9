#ifndef BULKHEAD_SERVER_SPEC_NORMALIZE_NORMALIZE_MIXTURE_H_
#define BULKHEAD_SERVER_SPEC_NORMALIZE_NORMALIZE_MIXTURE_H_

#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// Normalize for a spec whose source is a mixture: its sources, each with its own features, order
// and stages. Fills defaults in, adds what is wrong to `problems`, also what stands at the top of
// the spec but belongs to each source. Whether the sources offer the same features is
// InferSignature's to say.
void NormalizeMixture(v1::PipelineSpec& spec, SpecProblems& problems);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_NORMALIZE_NORMALIZE_MIXTURE_H_
