#include "server/spec/source_chain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/spec/batch_stages.h"
#include "server/spec/source_signature.h"
#include "server/spec/spec_error.h"
#include "server/spec/stage_signature.h"

namespace bulkhead {
namespace {

using Stages = google::protobuf::RepeatedPtrField<v1::Stage>;

void AddSteps(const Stages& stages, absl::string_view prefix, SourceChain& chain) {
  for (int i = 0; i < stages.size(); ++i) {
    chain.steps.push_back({&stages[i], absl::StrCat(prefix, "stages[", i, "]")});
  }
}

}  // namespace

std::string FirstStageOf(const v1::PipelineSpec& spec, v1::Stage::StageCase kind) {
  for (const SourceChain& chain : SourceChains(spec)) {
    for (const SourceChain::Step& step : chain.steps) {
      if (step.stage->stage_case() == kind) {
        return absl::StrCat(step.path, ".", StageName(*step.stage));
      }
    }
  }
  return "";
}

std::string FirstPythonStage(const v1::PipelineSpec& spec) {
  const std::string path = FirstStageOf(spec, v1::Stage::kPython);
  return path.empty() ? FirstPythonBatchStage(spec) : path;
}

std::string MixedSourcePath(int source) {
  return absl::StrCat("source.mixture.sources[", source, "]");
}

std::vector<SourceChain> SourceChains(const v1::PipelineSpec& spec) {
  std::vector<SourceChain> chains;
  if (!spec.source().has_mixture()) {
    SourceChain& chain = chains.emplace_back();
    chain.source = &spec.source();
    chain.features = &spec.features();
    AddSteps(spec.stages(), "", chain);
    return chains;
  }
  for (const v1::MixedSource& mixed : spec.source().mixture().sources()) {
    const int number = static_cast<int>(chains.size());
    SourceChain& chain = chains.emplace_back();
    chain.source = &mixed.source();
    chain.features = &mixed.features();
    chain.source_id = number;
    chain.path = MixedSourcePath(number);
    AddSteps(mixed.stages(), chain.path + ".", chain);
    chain.own_steps = chain.steps.size();
    AddSteps(spec.stages(), "", chain);
  }
  return chains;
}

bool MayDecodeParts(const v1::PipelineSpec& spec) {
  const auto has = [&](v1::Stage::StageCase kind) { return !FirstStageOf(spec, kind).empty(); };
  return has(v1::Stage::kDecodeImage) &&
         (has(v1::Stage::kCenterCrop) || has(v1::Stage::kRandomCrop) ||
          has(v1::Stage::kRandomResizedCrop));
}

absl::StatusOr<std::vector<FeatureSignature>> ChainFeatures(const SourceChain& chain) {
  auto features = SourceFeatures(*chain.source, *chain.features);
  if (!chain.source_id.has_value()) return features;
  if (!features.ok()) {
    SpecProblems own;
    own.Add(features.status());
    SpecProblems problems;
    problems.AddBelow(chain.path, own);
    return problems.ToStatus();
  }
  for (FeatureSignature& feature : *features) {
    feature.path = absl::StrCat(chain.path, ".", feature.path);
    if (feature.name == kSourceIdFeature) {
      return SpecError(feature.path,
                       "`source_id` is what a mixture calls the number of its source; rename this "
                       "feature");
    }
  }
  FeatureSignature source_id;
  source_id.name = kSourceIdFeature;
  source_id.dtype = v1::DTYPE_INT64;
  source_id.path = "source.mixture";
  const auto place =
      std::find_if(features->begin(), features->end(),
                   [](const FeatureSignature& feature) { return feature.name > kSourceIdFeature; });
  features->insert(place, std::move(source_id));
  return features;
}

}  // namespace bulkhead
