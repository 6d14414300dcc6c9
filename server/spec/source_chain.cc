#include "server/spec/source_chain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/spec/batch_stages.h"
#include "server/spec/list_steps.h"
#include "server/spec/source_signature.h"
#include "server/spec/stage_signature.h"
#include "server/stages/declaration/batch_kind.h"
#include "server/stages/declaration/spec_error.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

std::string LabelOf(const SourceChain::Step& step) {
  return absl::StrCat(step.path, " ", StageName(*step.stage));
}

// Of a batch stage.
std::string LabelOf(const v1::PipelineSpec& spec, int batch_stage) {
  return absl::StrCat(BatchStagePath(batch_stage), " ", StageName(spec.batch_stages(batch_stage)));
}

// Calls `use` with the label and the user code of every stage, in their order.
void ForEachCode(const v1::PipelineSpec& spec,
                 absl::FunctionRef<void(std::string label, const CodeName& code)> use) {
  for (const SourceChain& chain : SourceChains(spec)) {
    for (const SourceChain::Step& step : chain.steps) {
      const StageKind* const kind = KindOf(*step.stage);
      if (kind != nullptr) use(LabelOf(step), kind->CodeOf(*step.stage));
    }
  }
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    const BatchKind* const kind = BatchKindOf(spec.batch_stages(i));
    if (kind != nullptr) use(LabelOf(spec, i), kind->CodeOf(spec.batch_stages(i)));
  }
}

}  // namespace

std::string StepPath(const SourceChain::Step& step) {
  const std::string name = StageName(*step.stage);
  return absl::StrCat(step.path, name.empty() ? "" : ".", name);
}

bool StepGives(const SourceChain::Step& step, const FeatureSignature& feature) {
  return feature.path == StepPath(step) && (step.image.empty() || step.image == feature.name);
}

std::string FirstStageThat(const v1::PipelineSpec& spec,
                           absl::FunctionRef<bool(const v1::Stage&)> is_meant) {
  for (const SourceChain& chain : SourceChains(spec)) {
    for (const SourceChain::Step& step : chain.steps) {
      if (is_meant(*step.stage)) return absl::StrCat(step.path, ".", StageName(*step.stage));
    }
  }
  return "";
}

std::string FirstPythonStage(const v1::PipelineSpec& spec) {
  const std::string path = FirstStageThat(spec, [](const v1::Stage& stage) {
    return TraitsOf(stage).user_code == StageTraits::UserCode::kPython;
  });
  return path.empty() ? FirstPythonBatchStage(spec) : path;
}

std::map<std::string, std::string> CodeOfStages(const v1::PipelineSpec& spec) {
  std::map<std::string, std::string> code;
  ForEachCode(spec, [&](std::string label, const CodeName& name) {
    if (!name.shown.empty()) code.emplace(std::move(label), name.shown);
  });
  return code;
}

std::vector<std::string> UserCodeOf(const v1::PipelineSpec& spec) {
  std::vector<std::string> code;
  ForEachCode(spec, [&](const std::string&, const CodeName& name) {
    const bool known = std::find(code.begin(), code.end(), name.loaded) != code.end();
    if (!name.loaded.empty() && !known) code.push_back(name.loaded);
  });
  return code;
}

std::set<std::string> StageLabels(const v1::PipelineSpec& spec) {
  std::set<std::string> labels;
  for (const SourceChain& chain : SourceChains(spec)) {
    for (const SourceChain::Step& step : chain.steps) {
      labels.insert(LabelOf(step));
    }
  }
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    labels.insert(LabelOf(spec, i));
  }
  labels.merge(CacheLabels(spec));
  return labels;
}

std::set<std::string> CacheLabels(const v1::PipelineSpec& spec) {
  std::set<std::string> labels;
  for (const SourceChain& chain : SourceChains(spec)) {
    for (const SourceChain::CachePoint& cache : chain.caches) labels.insert(cache.path + " cache");
  }
  return labels;
}

std::set<std::string> DecodeLabels(const v1::PipelineSpec& spec) {
  std::set<std::string> labels;
  for (const SourceChain& chain : SourceChains(spec)) {
    for (const SourceChain::Step& step : chain.steps) {
      if (DecodingOf(*step.stage).has_value()) labels.insert(LabelOf(step));
    }
  }
  return labels;
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
    chain.lists = ImageListsOf(*chain.source, *chain.features);
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
    chain.lists = ImageListsOf(*chain.source, *chain.features);
    AddSteps(mixed.stages(), chain.path + ".", chain);
    chain.own_steps = chain.steps.size();
    AddSteps(spec.stages(), "", chain);
  }
  return chains;
}

std::string FirstCacheStage(const v1::PipelineSpec& spec) {
  for (const SourceChain& chain : SourceChains(spec)) {
    if (!chain.caches.empty()) return chain.caches[0].path + ".cache";
  }
  return "";
}

absl::Status CheckCaches(const SourceChain& chain) {
  if (chain.caches.empty()) return absl::OkStatus();
  const SourceChain::CachePoint& cache = chain.caches[0];
  const std::string path = cache.path + ".cache";
  if (chain.caches.size() > 1) {
    return SpecError(chain.caches[1].path + ".cache",
                     "is the second cache that a sample passes, after ", cache.path,
                     "; leave one out");
  }
  if (cache.steps_before == 0) {
    return SpecError(path,
                     "is before all stages, so there is nothing to keep; put it after the stages "
                     "that cost time, such as decode_image and resize");
  }
  for (size_t i = 0; i < cache.steps_before; ++i) {
    const v1::Stage& stage = *chain.steps[i].stage;
    const std::string step = absl::StrCat(chain.steps[i].path, ".", StageName(stage));
    const bool own_code = TraitsOf(stage).user_code != StageTraits::UserCode::kNone;
    if (own_code && cache.stage->key().empty()) {
      return SpecError(path + ".key", "is missing: what ", step,
                       " makes is kept beyond your code; write any key, and another one whenever "
                       "the code changes");
    }
    if (!own_code && IsRandomStage(stage)) {
      return SpecError(path, "would keep what ", step,
                       " drew in the first epoch; put it before that stage");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPartners(const SourceChain& chain) {
  const SourceChain::Step* first = nullptr;
  for (size_t i = 0; i < chain.steps.size(); ++i) {
    const SourceChain::Step& step = chain.steps[i];
    if (TraitsOf(*step.stage).partners == 0) continue;
    const std::string name = StageName(*step.stage);
    const std::string path = absl::StrCat(step.path, ".", name);
    if (i < chain.own_steps) {
      return SpecError(path,
                       "stands among one source's own stages, but its images come from all sources "
                       "of the mixture; put it among the common stages");
    }
    if (first != nullptr) {
      return SpecError(path, "is the second ", name, " that a sample passes, after ", first->path,
                       "; leave one out");
    }
    first = &step;
  }
  return absl::OkStatus();
}

bool DecodesImages(const v1::PipelineSpec& spec) {
  const auto decodes = [](const v1::Stage& stage) { return DecodingOf(stage).has_value(); };
  return !FirstStageThat(spec, decodes).empty();
}

bool MayDecodeParts(const v1::PipelineSpec& spec) {
  const auto cuts = [](const v1::Stage& stage) { return TraitsOf(stage).cuts_part; };
  return DecodesImages(spec) && !FirstStageThat(spec, cuts).empty();
}

std::optional<std::vector<FeatureSignature>> ChainFeatures(const SourceChain& chain,
                                                           SpecProblems& problems,
                                                           std::set<std::string>& wrong) {
  auto features = SourceFeatures(*chain.source, *chain.features, chain.path, problems, wrong);
  if (!chain.source_id.has_value() || !features.has_value()) return features;
  for (FeatureSignature& feature : *features) {
    feature.path = absl::StrCat(chain.path, ".", feature.path);
    if (feature.name != kSourceIdFeature) continue;
    problems.Add(
        feature.path,
        "`source_id` is what a mixture calls the number of its source; rename this feature");
    return std::nullopt;
  }
  FeatureSignature source_id = {
      .name = kSourceIdFeature, .dtype = v1::DTYPE_INT64, .path = "source.mixture"};
  InsertFeature(std::move(source_id), "", *features).IgnoreError();  // the name is free
  return features;
}

}  // namespace bulkhead
