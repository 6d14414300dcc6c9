#include "tools/scan/scan_spec.h"

#include <algorithm>

#include "server/base/error.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/selection.h"
#include "server/spec/signature.h"
#include "server/spec/source_signature.h"

namespace bulkhead::tools {
namespace {

// Source `number` of a mixture, as a spec of its own.
v1::PipelineSpec Alone(const v1::PipelineSpec& spec, int number) {
  const v1::MixedSource& mixed = spec.source().mixture().sources(number);
  v1::PipelineSpec alone = spec;
  *alone.mutable_exclude() = SelectionOf(spec, number).exclude();
  *alone.mutable_source() = mixed.source();
  *alone.mutable_features() = mixed.features();
  *alone.mutable_filter() = mixed.filter();
  alone.clear_split();
  if (mixed.has_split()) *alone.mutable_split() = mixed.split();
  alone.set_skip(mixed.skip());
  alone.clear_take();
  if (mixed.has_take()) alone.set_take(mixed.take());
  *alone.mutable_stages() = mixed.stages();
  alone.mutable_stages()->MergeFrom(spec.stages());
  auto& outputs = *alone.mutable_outputs();
  outputs.erase(std::remove(outputs.begin(), outputs.end(), kSourceIdFeature), outputs.end());
  return alone;
}

absl::StatusOr<v1::PipelineSpec> ForScan(v1::PipelineSpec spec) {
  spec.mutable_order()->mutable_sequential();
  spec.set_epochs(1);
  spec.clear_deterministic();
  spec.mutable_batch()->set_last(v1::LAST_BATCH_PARTIAL);
  spec.mutable_errors()->set_policy(v1::ERROR_ACTION_BLANK);
  spec.mutable_errors()->set_max_fraction(1);
  v1::PipelineSpec plain = spec;
  plain.clear_batch_stages();
  // Outputs may be what batch stages make, or bounded by them alone.
  if (Normalize(plain).ok() && InferSignature(plain).ok()) return plain;
  BULKHEAD_RETURN_IF_ERROR(Normalize(spec));
  BULKHEAD_RETURN_IF_ERROR(InferSignature(spec).status());
  return spec;
}

}  // namespace

absl::StatusOr<std::vector<v1::PipelineSpec>> ScanSpecs(const v1::PipelineSpec& spec) {
  std::vector<v1::PipelineSpec> specs;
  if (!spec.source().has_mixture()) {
    BULKHEAD_ASSIGN_OR_RETURN(specs.emplace_back(), ForScan(spec));
    return specs;
  }
  for (int i = 0; i < spec.source().mixture().sources_size(); ++i) {
    BULKHEAD_ASSIGN_OR_RETURN(specs.emplace_back(), ForScan(Alone(spec, i)));
  }
  return specs;
}

}  // namespace bulkhead::tools
