#pragma once

#include <string>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/spec_error.h"
#include "server/stages/declaration/stage_kind.h"

// The parts of Normalize: each fills in defaults and adds mistakes to `problems`.
namespace bulkhead {

// Normalize for a source that is not a mixture, and its features: fills in defaults, adds mistakes
// to `problems`.
void NormalizeSource(v1::Source& source, google::protobuf::Map<std::string, v1::Feature>& features,
                     SpecProblems& problems);

// The most records of a `range` with a selection: half a GiB of bitmap.
inline constexpr uint64_t kMaxSelectedRange = uint64_t{1} << 32;

// Checks a filter on the features of a normalized source, and sorts the values that it lists.
// `path`: the filter's place ("filter"). Mistakes in the features themselves are found elsewhere.
void NormalizeFilter(const v1::Source& source,
                     const google::protobuf::Map<std::string, v1::Feature>& features,
                     google::protobuf::RepeatedPtrField<v1::Condition>& filter,
                     const std::string& path, SpecProblems& problems);

// Checks the split at `path`.
void CheckSplit(const v1::Source& source, const v1::Split& split, const std::string& path,
                SpecProblems& problems);

// Checks the names of excluded records, and sorts them. Those of a mixture begin with the number of
// one of its sources.
void NormalizeExclude(v1::PipelineSpec& spec, SpecProblems& problems);

// Checks filter and split of a message that has them beside a normalized source and its features:
// PipelineSpec, MixedSource.
template <typename Spec>
void NormalizeSelection(Spec& spec, SpecProblems& problems) {
  NormalizeFilter(spec.source(), spec.features(), *spec.mutable_filter(), "filter", problems);
  if (spec.has_split()) CheckSplit(spec.source(), spec.split(), "split", problems);
}

// Normalize for the order of one source: fills in defaults, adds mistakes to `problems`.
void NormalizeOrder(v1::Order& order, SpecProblems& problems);

// Normalize for a spec whose source is a mixture: its sources, each with its own features, order
// and stages. Fills in defaults and adds mistakes to `problems`, including options at the top of
// the spec that belong to each source. InferSignature checks whether the sources offer the same
// features.
void NormalizeMixture(v1::PipelineSpec& spec, SpecProblems& problems);

}  // namespace bulkhead
