#include "server/spec/normalize/normalize.h"

#include "absl/strings/str_cat.h"
#include "server/spec/batch_stages.h"
#include "server/spec/declared_options.h"
#include "server/spec/normalize/normalize_mixture.h"
#include "server/spec/normalize/normalize_order.h"
#include "server/spec/normalize/normalize_selection.h"
#include "server/spec/normalize/normalize_source.h"
#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {
namespace {

constexpr double kDefaultMaxFraction = 0.01;

void NormalizeBatch(v1::PipelineSpec& spec, SpecProblems& problems) {
  v1::Batch& batch = *spec.mutable_batch();
  DeclaredOptions(v1::Batch::descriptor())->Normalize(batch, "batch", problems);
  if (batch.has_drop_remainder()) {
    if (batch.last() != v1::LAST_BATCH_UNSPECIFIED) {
      problems.Add("batch.drop_remainder", "says the same as `last`; give one of them");
      return;
    }
    batch.set_last(batch.drop_remainder() ? v1::LAST_BATCH_DROP : v1::LAST_BATCH_PARTIAL);
    batch.clear_drop_remainder();
  }
  if (batch.last() == v1::LAST_BATCH_UNSPECIFIED) batch.set_last(v1::LAST_BATCH_PARTIAL);
}

void NormalizeErrors(v1::ErrorPolicy& errors, SpecProblems& problems) {
  if (errors.policy() == v1::ERROR_ACTION_UNSPECIFIED) errors.set_policy(v1::ERROR_ACTION_FAIL);
  if (errors.policy() == v1::ERROR_ACTION_FAIL) {
    if (errors.has_max_fraction()) {
      problems.Add("errors.max_fraction", "goes with policy: substitute or blank only");
    }
    return;
  }
  if (!errors.has_max_fraction()) errors.set_max_fraction(kDefaultMaxFraction);
  DeclaredOptions(v1::ErrorPolicy::descriptor())->Normalize(errors, "errors", problems);
}

void CheckOutputs(const v1::PipelineSpec& spec, SpecProblems& problems) {
  for (int i = 0; i < spec.outputs_size(); ++i) {
    if (spec.outputs(i).empty()) {
      problems.Add(absl::StrCat("outputs[", i, "]"), "is empty: name a feature");
    }
  }
}

// Enums travel as numbers, and a client of another version may send one that this build lacks.
void CheckEnums(const v1::PipelineSpec& spec, SpecProblems& problems) {
  if (!v1::LastBatch_IsValid(spec.batch().last())) {
    problems.Add("batch.last", absl::StrCat("has the unknown value ", spec.batch().last()));
  }
  if (!v1::ErrorAction_IsValid(spec.errors().policy())) {
    problems.Add("errors.policy", absl::StrCat("has the unknown value ", spec.errors().policy()));
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
  DeclaredOptions(v1::PipelineSpec::descriptor())->Normalize(spec, "", problems);
  NormalizeErrors(*spec.mutable_errors(), problems);
  CheckOutputs(spec, problems);
}

absl::Status Normalize(v1::PipelineSpec& spec) {
  SpecProblems problems;
  Normalize(spec, problems);
  return problems.ToStatus();
}

}  // namespace bulkhead
