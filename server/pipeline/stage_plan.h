#pragma once

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

// A feature that follows an image whose pixels a stage moves.
struct PlannedFollower {
  size_t feature = 0;
  Annotation annotation;
};

// A stage and the features that it works on.
struct PlannedStage {
  std::unique_ptr<SampleStage> stage;
  // The features of its StageValues, by the plan's numbers.
  std::vector<size_t> features;
  // The features that are moved after it.
  std::vector<PlannedFollower> followers;
  // The output to whose memory in the batch the stage may write its first value; -1: none.
  int target_output = -1;
  // Its number for StageObserver.
  uint32_t number = 0;
  // The image of a list that it works on, "views/2", for messages; empty: none.
  std::string image;
};

// One tensor of the batch and where its bytes come from.
struct PlannedOutput {
  static constexpr size_t kOfBatch = static_cast<size_t>(-1);

  v1::TensorSchema tensor;
  size_t feature = 0;     // kOfBatch: no sample writes it, a batch stage does
  bool is_count = false;  // `<name>_count`: how much of the feature is filled
};

// The stages for the samples of one source, ready to run, in their order. Some do the work of two
// written stages. Features are numbered in the source's order; those that stages make follow.
// Immutable.
struct StagePlan {
  std::vector<PlannedStage> stages;
  std::vector<PlannedOutput> outputs;
  size_t source_feature_count = 0;
  std::vector<size_t> source_features;  // their numbers: 0, 1, …
  // The names of those whose first stage takes them unread.
  std::vector<std::string> read_later;
  size_t feature_count = 0;
  // In a plan that is cut at a cache stage: the stages before it, and the features that they change
  // or make and that exist after it.
  struct Kept {
    size_t stages = 0;
    std::vector<size_t> features;
    std::vector<FeatureSignature> signatures;
  };
  Kept kept;
  // In a plan with a stage that needs other samples: the stage's number, and the features that
  // exist before it and are needed after it, except those that it works on.
  struct Partnered {
    static constexpr size_t kNone = static_cast<size_t>(-1);
    size_t stage = kNone;
    std::vector<size_t> bystanders;
  };
  Partnered partnered;
};

// Plans the stages for the samples of one source of a normalized spec, with that source's signature
// and the outputs of the whole spec. With `fuse`, neighbouring stages are joined where possible
// (SampleStage::TakeBehind): a decoder and a crop, a resize and work on its rows. Without it only
// those are joined that must be; the bytes are the same. None of the first `cut` stages is joined
// with one after them: the chain's cache stage stands there, or the chain ends. INTERNAL if
// signature and stages disagree.
absl::StatusOr<StagePlan> PlanStages(const SourceChain& chain, const SourceSignature& signature,
                                     const v1::BatchSchema& schema, bool fuse, size_t cut);

}  // namespace bulkhead
