#ifndef BULKHEAD_SERVER_PIPELINE_STAGE_PLAN_H_
#define BULKHEAD_SERVER_PIPELINE_STAGE_PLAN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/pipeline/sample_stage.h"
#include "server/spec/signature.h"

namespace bulkhead {

// A stage and what it works on.
struct PlannedStage {
  std::unique_ptr<SampleStage> stage;
  size_t feature = 0;
  // Output whose memory in the batch the stage may write; -1: none.
  int target_output = -1;
};

// One tensor of the batch and where its bytes come from.
struct PlannedOutput {
  v1::TensorSchema tensor;
  size_t feature = 0;
  bool is_count = false;  // `<name>_count`: how much of the feature is filled
};

// A spec made ready to run: stages in their order, some of which stand for two of the written ones.
// Features are numbered as the source gives them. Immutable.
struct StagePlan {
  std::vector<PlannedStage> stages;
  std::vector<PlannedOutput> outputs;
  size_t feature_count = 0;
};

// Plans a normalized `spec` with its `signature`. With `fuse`, decode_image and a crop right behind
// it become one region decode, normalize and a layout to NCHW right behind it one pass; without it
// every stage runs by itself, to the same bytes. INTERNAL when signature and stages disagree.
absl::StatusOr<StagePlan> PlanStages(const v1::PipelineSpec& spec,
                                     const PipelineSignature& signature, bool fuse);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_STAGE_PLAN_H_
