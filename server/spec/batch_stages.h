#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"
#include "server/stages/declaration/spec_error.h"

// The batch stages of a spec (`batch_stages`), in their order. The families declare what each kind
// does (server/stages/declaration/batch_kind.h).
namespace bulkhead {

// Whether random numbers change the result of this normalized stage. A user's function may draw
// some.
bool IsRandomBatchStage(const v1::BatchStage& stage);

// "batch_stages[1]".
std::string BatchStagePath(int index);

// Fills in defaults; adds mistakes in each stage by itself to `problems`.
void NormalizeBatchStages(v1::PipelineSpec& spec, SpecProblems& problems);

// Notes in `features`, those after the last stage for samples, how the first `stages` batch stages
// pack them.
void MarkPacked(const v1::PipelineSpec& spec, int stages, std::vector<FeatureSignature>& features);

// The features that batch stage `index`, a pack_rows, packs: those that it names or, of the final
// `features` of samples, all of variable length that no earlier stage packs.
std::vector<std::string> RowsPackedAt(const v1::PipelineSpec& spec, int index,
                                      std::vector<FeatureSignature> features);

// Adds the features that batch stages make to the `features` of samples, sorted by name, and notes
// how batch stages pack those. The `path` of an added feature is its stage's.
void AddBatchFeatures(const v1::PipelineSpec& spec, std::vector<FeatureSignature>& features);

// Checks for every batch stage without a problem that its inputs are outputs of `schema` and that
// its results fit there; adds mistakes to `problems`. `features`: those after the last stage for
// samples.
void CheckBatchStages(const v1::PipelineSpec& spec, const std::vector<FeatureSignature>& features,
                      const v1::BatchSchema& schema, SpecProblems& problems);

// Whether a batch stage makes the output `name`, which samples do not have.
bool IsBatchFeature(const v1::PipelineSpec& spec, const std::vector<FeatureSignature>& features,
                    absl::string_view name);

// The place of a spec's first batch stage that runs Python, "batch_stages[0].python"; empty if
// there is none.
std::string FirstPythonBatchStage(const v1::PipelineSpec& spec);

}  // namespace bulkhead
