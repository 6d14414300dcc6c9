#include "server/spec/batch_stages.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/stages/declaration/batch_kind.h"
#include "server/stages/declaration/stage_checks.h"
#include "server/stages/packing/declare.h"

namespace bulkhead {
namespace {

constexpr char kEmpty[] = "is empty: name a batch stage, such as mixup: {}";

// "batch_stages[1].mixup".
std::string FullPath(const v1::PipelineSpec& spec, int index) {
  return absl::StrCat(BatchStagePath(index), ".", StageName(spec.batch_stages(index)));
}

}  // namespace

bool IsRandomBatchStage(const v1::BatchStage& stage) {
  const BatchKind* const kind = BatchKindOf(stage);
  return kind != nullptr && kind->IsRandom(stage);
}

std::string BatchStagePath(int index) { return absl::StrCat("batch_stages[", index, "]"); }

void NormalizeBatchStages(v1::PipelineSpec& spec, SpecProblems& problems) {
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    v1::BatchStage& stage = *spec.mutable_batch_stages(i);
    const BatchKind* const kind = BatchKindOf(stage);
    if (kind == nullptr) {
      problems.Add(BatchStagePath(i), kEmpty);
      continue;
    }
    kind->options().Normalize(MutableOptionsOf(stage), FullPath(spec, i), problems);
    kind->CheckRules(stage, FullPath(spec, i), problems);
  }
}

void MarkPacked(const v1::PipelineSpec& spec, int stages, std::vector<FeatureSignature>& features) {
  for (int i = 0; i < stages; ++i) {
    const BatchKind* const kind = BatchKindOf(spec.batch_stages(i));
    if (kind != nullptr) kind->MarkPacked(spec.batch_stages(i), FullPath(spec, i), features);
  }
}

std::vector<std::string> RowsPackedAt(const v1::PipelineSpec& spec, int index,
                                      std::vector<FeatureSignature> features) {
  MarkPacked(spec, index, features);
  return RowsPacked(spec.batch_stages(index).pack_rows(), features);
}

void AddBatchFeatures(const v1::PipelineSpec& spec, std::vector<FeatureSignature>& features) {
  MarkPacked(spec, spec.batch_stages_size(), features);
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    const BatchKind* const kind = BatchKindOf(spec.batch_stages(i));
    if (kind == nullptr) continue;
    for (FeatureSignature& made : kind->Adds(spec.batch_stages(i), FullPath(spec, i))) {
      // The first one that gives it declares it.
      InsertFeature(std::move(made), "", features).IgnoreError();
    }
  }
}

bool IsBatchFeature(const v1::PipelineSpec& spec, const std::vector<FeatureSignature>& features,
                    absl::string_view name) {
  if (FindFeature(features, name) != nullptr) return false;
  for (const v1::BatchStage& stage : spec.batch_stages()) {
    const BatchKind* const kind = BatchKindOf(stage);
    if (kind == nullptr) continue;
    const std::vector<std::string> made = kind->Makes(stage, features);
    if (std::count(made.begin(), made.end(), name) > 0) return true;
  }
  return false;
}

void CheckBatchStages(const v1::PipelineSpec& spec, const std::vector<FeatureSignature>& features,
                      const v1::BatchSchema& schema, SpecProblems& problems) {
  for (const FeatureSignature& feature : features) {
    if (!feature.normalization.has_value() || spec.batch_stages().empty()) continue;
    return problems.Add(FullPath(spec, 0), "`", feature.name,
                        "` is normalized by the trainer (at: trainer, ", feature.normalized_at,
                        "), behind which no batch stage can work; write at: worker");
  }
  std::set<std::string> there;
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    if (!IsBatchFeature(spec, features, tensor.name())) there.insert(tensor.name());
  }
  BatchOutputs outputs(features, schema, std::move(there));
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    const v1::BatchStage& stage = spec.batch_stages(i);
    const BatchKind* const kind = BatchKindOf(stage);
    if (kind == nullptr) return problems.Add(BatchStagePath(i), kEmpty);
    if (!problems.AnyAtOrBelow(BatchStagePath(i))) {
      const absl::Status status = kind->Check(stage, FullPath(spec, i), outputs);
      if (status.ok()) continue;
      problems.Add(status);
    }
    // What it would have made is no news where a later stage works on it.
    for (const std::string& name : kind->Makes(stage, features)) outputs.Make(name);
  }
}

std::string FirstPythonBatchStage(const v1::PipelineSpec& spec) {
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    if (TraitsOf(spec.batch_stages(i)).user_code == StageTraits::UserCode::kPython) {
      return FullPath(spec, i);
    }
  }
  return "";
}

}  // namespace bulkhead
