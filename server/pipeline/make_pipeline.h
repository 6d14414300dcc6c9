#ifndef BULKHEAD_SERVER_PIPELINE_MAKE_PIPELINE_H_
#define BULKHEAD_SERVER_PIPELINE_MAKE_PIPELINE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/pipeline/pipeline.h"
#include "server/source/source.h"
#include "server/stages/running/user_code.h"

namespace bulkhead {

struct PipelineOptions {
  // Off, every stage runs by itself: slower, the same bytes and verdicts. For tests.
  bool fuse = true;
  // What stages of the user's are loaded with.
  UserCode user_code;
};

// A pipeline over open `sources` (fake ones in tests), one or, for a mixture, as many as it has:
// source, features, stages and outputs of `spec`, which is normalized, count. Records count through
// all sources. Errors: those of InferSignature; STAGE_UNUSABLE; INTERNAL when the sources' features
// are not those of the spec.
absl::StatusOr<std::unique_ptr<Pipeline>> MakePipeline(std::vector<std::unique_ptr<Source>> sources,
                                                       v1::PipelineSpec spec,
                                                       const PipelineOptions& options = {});

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_MAKE_PIPELINE_H_
