#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/pipeline/pipeline.h"
#include "server/source/source.h"
#include "server/stages/running/user_code.h"

namespace bulkhead {

struct PipelineOptions {
  // If false, every stage runs separately: slower, with the same bytes and verdicts. For tests.
  bool fuse = true;
  // What is needed to load user stages.
  UserCode user_code;
};

// A pipeline over open `sources` (fakes in tests): one, or for a mixture one for each of its
// sources. Uses source, features, stages and outputs of the normalized `spec`. Records are numbered
// through all sources. Errors: those of InferSignature; STAGE_UNUSABLE; INTERNAL if the sources'
// features are not those of the spec.
absl::StatusOr<std::unique_ptr<Pipeline>> MakePipeline(std::vector<std::unique_ptr<Source>> sources,
                                                       v1::PipelineSpec spec,
                                                       const PipelineOptions& options = {});

}  // namespace bulkhead
