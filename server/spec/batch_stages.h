#ifndef BULKHEAD_SERVER_SPEC_BATCH_STAGES_H_
#define BULKHEAD_SERVER_SPEC_BATCH_STAGES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"
#include "server/stages/declaration/spec_error.h"

// The stages of a spec that work on whole batches (`batch_stages`), one after the other; what each
// kind does is its family's business (server/stages/declaration/batch_kind.h).
namespace bulkhead {

// Whether the stage, which is normalized, draws random numbers that decide anything. A function of
// the user's may.
bool IsRandomBatchStage(const v1::BatchStage& stage);

// "batch_stages[1]".
std::string BatchStagePath(int index);

// Fills defaults in; adds what is wrong with each stage by itself to `problems`.
void NormalizeBatchStages(v1::PipelineSpec& spec, SpecProblems& problems);

// Notes in `features`, which samples have in the end, how the first `stages` batch stages pack
// them.
void MarkPacked(const v1::PipelineSpec& spec, int stages, std::vector<FeatureSignature>& features);

// The features that batch stage `index`, a pack_rows, packs: those that it names, or, of the
// `features` that samples have in the end, all of variable length that no stage before it packs.
std::vector<std::string> RowsPackedAt(const v1::PipelineSpec& spec, int index,
                                      std::vector<FeatureSignature> features);

// Adds what the batch stages make beside the `features` that samples have, all sorted by name, and
// notes how they pack those. The `path` of an added one is its stage's.
void AddBatchFeatures(const v1::PipelineSpec& spec, std::vector<FeatureSignature>& features);

// That every batch stage without a problem yet finds what it works on among the outputs of
// `schema`, and that what it gives fits there; adds what is wrong to `problems`. `features`: those
// that samples have in the end.
void CheckBatchStages(const v1::PipelineSpec& spec, const std::vector<FeatureSignature>& features,
                      const v1::BatchSchema& schema, SpecProblems& problems);

// Whether a batch stage gives the output `name`, which samples do not have.
bool IsBatchFeature(const v1::PipelineSpec& spec, const std::vector<FeatureSignature>& features,
                    absl::string_view name);

// The place of a spec's first batch stage that runs Python, "batch_stages[0].python"; empty when
// there is none.
std::string FirstPythonBatchStage(const v1::PipelineSpec& spec);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_BATCH_STAGES_H_
