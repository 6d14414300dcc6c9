#ifndef BULKHEAD_SERVER_PIPELINE_STAGE_PLAN_H_
#define BULKHEAD_SERVER_PIPELINE_STAGE_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"
#include "server/spec/source_chain.h"
#include "server/stages/declaration/annotation.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {

// What follows an image whose pixels a stage moves.
struct PlannedFollower {
  size_t feature = 0;
  Annotation annotation;
};

// A stage and what it works on.
struct PlannedStage {
  std::unique_ptr<SampleStage> stage;
  // What StageValues holds, by the plan's numbers.
  std::vector<size_t> features;
  // Moved along after it.
  std::vector<PlannedFollower> followers;
  // Output whose memory in the batch the stage may write for its first value; -1: none.
  int target_output = -1;
  // What StageObserver calls it.
  uint32_t number = 0;
};

// One tensor of the batch and where its bytes come from.
struct PlannedOutput {
  static constexpr size_t kOfBatch = static_cast<size_t>(-1);

  v1::TensorSchema tensor;
  size_t feature = 0;     // kOfBatch: no sample writes it, a batch stage does
  bool is_count = false;  // `<name>_count`: how much of the feature is filled
};

// A source's way through a spec made ready to run: stages in their order, some of which stand for
// two of the written ones. Features are numbered as the source gives them, and on as stages make
// more. Immutable.
struct StagePlan {
  std::vector<PlannedStage> stages;
  std::vector<PlannedOutput> outputs;
  size_t source_feature_count = 0;
  std::vector<size_t> source_features;  // their numbers: 0, 1, …
  size_t feature_count = 0;
  // Of a plan that is cut at a cache stage: the stages before it, and the features that they change
  // or make and that exist after it.
  struct Kept {
    size_t stages = 0;
    std::vector<size_t> features;
    std::vector<FeatureSignature> signatures;
  };
  Kept kept;
  // Of a plan with a stage that has other samples made: its number, and the features that are there
  // before it and wanted after it, but none of its own.
  struct Partnered {
    static constexpr size_t kNone = static_cast<size_t>(-1);
    size_t stage = kNone;
    std::vector<size_t> bystanders;
  };
  Partnered partnered;
};

// Plans what is done to the samples of one source of a normalized spec, with that source's
// signature and the outputs of the whole. With `fuse`, stages that are neighbours become one pass
// where they can (SampleStage::TakeBehind): a decoder and a crop, a resize and what is done to its
// rows; without it only those that must, to the same bytes.
// INTERNAL when signature and stages disagree.
absl::StatusOr<StagePlan> PlanStages(const SourceChain& chain, const SourceSignature& signature,
                                     const v1::BatchSchema& schema, bool fuse);

// The same cut at the chain's cache stage: nothing before it is joined with anything behind.
absl::StatusOr<StagePlan> PlanStagesCut(const SourceChain& chain, const SourceSignature& signature,
                                        const v1::BatchSchema& schema, bool fuse);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_STAGE_PLAN_H_
