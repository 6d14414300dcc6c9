#include "server/spec/normalize/normalize.h"

#include "absl/strings/str_cat.h"
#include "server/spec/batch_stages.h"
#include "server/spec/declared_options.h"
#include "server/spec/normalize/normalize_parts.h"
#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {
namespace {

void NormalizeBatch(v1::PipelineSpec& spec, SpecProblems& problems) {
  v1::Batch& batch = *spec.mutable_batch();
  const bool twice = batch.has_drop_remainder() && batch.last() != v1::LAST_BATCH_UNSPECIFIED;
  if (batch.has_drop_remainder() && !twice) {
    batch.set_last(batch.drop_remainder() ? v1::LAST_BATCH_DROP : v1::LAST_BATCH_PARTIAL);
    batch.clear_drop_remainder();
  }
  NormalizeOptions(batch, "batch", problems);
  if (twice) problems.Add("batch.drop_remainder", "says the same as `last`; give one of them");
}

void NormalizeErrors(v1::ErrorPolicy& errors, SpecProblems& problems) {
  const bool given = errors.has_max_fraction();
  DeclaredOptions(errors.GetDescriptor())->FillDefaults(errors);
  if (errors.policy() != v1::ERROR_ACTION_FAIL) return NormalizeOptions(errors, "errors", problems);
  if (given) problems.Add("errors.max_fraction", "goes with policy: substitute or blank only");
  errors.clear_max_fraction();
}

void CheckOutputs(const v1::PipelineSpec& spec, SpecProblems& problems) {
  for (int i = 0; i < spec.outputs_size(); ++i) {
    if (spec.outputs(i).empty()) {
      problems.Add(absl::StrCat("outputs[", i, "]"), "is empty: name a feature");
    }
  }
}

// Enums travel as numbers, and a client of another version may send one that this build lacks: that
// is told before all else.
void CheckEnums(const v1::PipelineSpec& spec, SpecProblems& problems) {
  if (!v1::LastBatch_IsValid(spec.batch().last())) {
    problems.Add("batch.last", "has the unknown value ", spec.batch().last());
  }
  if (!v1::ErrorAction_IsValid(spec.errors().policy())) {
    problems.Add("errors.policy", "has the unknown value ", spec.errors().policy());
  }
}

}  // namespace

void Normalize(v1::PipelineSpec& spec, SpecProblems& problems) {
  CheckEnums(spec, problems);
  if (spec.source().has_mixture()) {
    NormalizeMixture(spec, problems);
  } else {
    NormalizeSource(*spec.mutable_source(), *spec.mutable_features(), problems);
    NormalizeSelection(spec, problems);
    NormalizeOrder(*spec.mutable_order(), problems);
  }
  NormalizeExclude(spec, problems);
  for (int i = 0; i < spec.stages_size(); ++i) {
    NormalizeStageOptions(*spec.mutable_stages(i), absl::StrCat("stages[", i, "]"), problems);
  }
  NormalizeBatchStages(spec, problems);
  NormalizeBatch(spec, problems);
  NormalizeOptions(spec, "", problems);
  NormalizeErrors(*spec.mutable_errors(), problems);
  CheckOutputs(spec, problems);
}

absl::Status Normalize(v1::PipelineSpec& spec) {
  SpecProblems problems;
  Normalize(spec, problems);
  return problems.ToStatus();
}

void FillImplied(v1::PipelineSpec& spec) {
  const auto fill = [](auto& stages) {
    for (v1::Stage& stage : stages) {
      const StageKind* const kind = KindOf(stage);
      if (kind != nullptr) kind->options().FillImplied(MutableOptionsOf(stage));
    }
  };
  fill(*spec.mutable_stages());
  if (!spec.source().has_mixture()) return;
  for (v1::MixedSource& mixed : *spec.mutable_source()->mutable_mixture()->mutable_sources()) {
    fill(*mixed.mutable_stages());
  }
}

}  // namespace bulkhead
