#include "tools/doctor/cut_specs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"

namespace bulkhead::tools {
namespace {

constexpr int kAddedSide = 64;  // pixels of an image whose size is not known

bool CanRun(v1::PipelineSpec spec) { return Normalize(spec).ok() && InferSignature(spec).ok(); }

std::string TitleOf(const v1::PipelineSpec& spec, int stages) {
  if (stages == 0) return "source";
  const std::string last =
      absl::StrCat("stages[", stages - 1, "] ", StageName(spec.stages(stages - 1)));
  return stages == 1 ? last : absl::StrCat("stages[0] to ", last);
}

// Asks for whatever can be delivered of `features`. Images of any size are brought to one.
void SetOutputs(const std::vector<FeatureSignature>& features, SpecPrefix& prefix) {
  std::vector<std::string> names, added;
  v1::PipelineSpec boxed = prefix.spec;
  for (const FeatureSignature& feature : features) {
    names.push_back(feature.name);
    const bool any_size =
        std::find(feature.shape.begin(), feature.shape.end(), -1) != feature.shape.end();
    if (feature.kind != FeatureSignature::Kind::kImage || !any_size) continue;
    added.push_back(absl::StrCat("stages[", boxed.stages_size(), "] letterbox"));
    v1::Letterbox& letterbox = *boxed.add_stages()->mutable_letterbox();
    letterbox.set_input(feature.name);
    letterbox.add_size(kAddedSide);
  }
  if (!added.empty() && AskFor(names, boxed)) {
    prefix.spec = std::move(boxed);
    prefix.added = absl::StrJoin(added, ", ");
  } else if (!AskFor(names, prefix.spec)) {
    prefix.spec.Clear();
    prefix.impossible = "nothing that is known there can be delivered";
  }
}

}  // namespace

const std::vector<FeatureSignature>& FeaturesBefore(const v1::PipelineSpec& spec,
                                                    const PipelineSignature& signature,
                                                    int stages) {
  const SourceChain chain = SourceChains(spec)[0];
  size_t steps = chain.own_steps;
  for (int i = 0; i < stages; ++i) {
    // A cache stage is no step.
    if (!TraitsOf(spec.stages(i)).keeps_samples) ++steps;
  }
  return signature.sources[0].FeaturesBefore(steps);
}

bool AskFor(const std::vector<std::string>& names, v1::PipelineSpec& spec) {
  std::vector<std::string> outputs;
  for (const std::string& name : names) {
    if (std::find(outputs.begin(), outputs.end(), name) != outputs.end()) continue;
    spec.clear_outputs();
    spec.add_outputs(name);
    if (CanRun(spec)) outputs.push_back(name);
  }
  spec.clear_outputs();
  for (const std::string& output : outputs) spec.add_outputs(output);
  return !outputs.empty() && Normalize(spec).ok() && InferSignature(spec).ok();
}

absl::StatusOr<std::vector<SpecPrefix>> PrefixesOf(const v1::PipelineSpec& spec) {
  BULKHEAD_ASSIGN_OR_RETURN(const PipelineSignature signature, InferSignature(spec));
  std::vector<SpecPrefix> prefixes;
  const int most = spec.stages_size() - (spec.batch_stages_size() == 0 ? 1 : 0);
  for (int stages = 0; stages <= most; ++stages) {
    // A cache stage changes no sample.
    if (stages > 0 && TraitsOf(spec.stages(stages - 1)).keeps_samples) continue;
    SpecPrefix& prefix = prefixes.emplace_back();
    prefix.stages = stages;
    prefix.title = TitleOf(spec, stages);
    prefix.spec = spec;
    prefix.spec.mutable_stages()->DeleteSubrange(stages, spec.stages_size() - stages);
    prefix.spec.clear_batch_stages();
    SetOutputs(FeaturesBefore(spec, signature, stages), prefix);
  }
  return prefixes;
}

}  // namespace bulkhead::tools
