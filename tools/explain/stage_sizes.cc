#include "tools/explain/stage_sizes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/element_type.h"
#include "server/pipeline/stage_observer.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead::tools {
namespace {

std::vector<std::string> NamesOf(const std::vector<FeatureSignature>& features) {
  std::vector<std::string> names;
  names.reserve(features.size());
  for (const FeatureSignature& feature : features) names.push_back(feature.name);
  return names;
}

std::string LabelOf(const SourceChain::Step& step) {
  return absl::StrCat(step.path, " ", StageName(*step.stage));
}

// The stage that a decoder at `decode` may be run together with; empty when there is none.
std::string StageBehind(const SourceChain& chain, size_t decode) {
  for (size_t i = decode + 1; i < chain.steps.size(); ++i) {
    const v1::Stage& stage = *chain.steps[i].stage;
    if (!TraitsOf(stage).fails_on_purpose && !TraitsOf(stage).declares)
      return LabelOf(chain.steps[i]);
  }
  return "";
}

// Of the image called `name`.
uint64_t PixelBytesOf(const std::vector<FeatureSignature>& features, const std::string& name) {
  for (const FeatureSignature& feature : features) {
    if (feature.name != name) continue;
    return ElementBytes(feature.dtype) * static_cast<uint64_t>(feature.shape.back());
  }
  return 1;
}

}  // namespace

void SeenSize::Add(uint64_t sample_bytes) {
  ++samples;
  bytes += sample_bytes;
  most_bytes = std::max(most_bytes, sample_bytes);
}

StageSizes::StageSizes(const v1::PipelineSpec& spec, const PipelineSignature& signature,
                       const std::vector<std::string>& stage_names)
    : running_(StageObserver::kFirstStage + stage_names.size()) {
  Running& source = running_[StageObserver::kSource];
  source.name = "source";
  source.features = NamesOf(signature.sources[0].source_features);
  for (const SourceSignature& other : signature.sources) {
    // An observer is not told which source of a mixture it was.
    if (NamesOf(other.source_features) != source.features) source.features.clear();
  }
  for (size_t i = 0; i < signature.sources.size(); ++i) AddChain(spec, signature, i, stage_names);
}

void StageSizes::AddChain(const v1::PipelineSpec& spec, const PipelineSignature& signature,
                          size_t number, const std::vector<std::string>& stage_names) {
  const SourceChain chain = SourceChains(spec)[number];
  for (size_t i = 0; i < chain.steps.size(); ++i) {
    const v1::Stage& stage = *chain.steps[i].stage;
    const std::string name = LabelOf(chain.steps[i]);
    const auto known = std::find(stage_names.begin(), stage_names.end(), name);
    if (known == stage_names.end()) continue;
    Running& running = running_[StageObserver::kFirstStage + (known - stage_names.begin())];
    running.name = name;
    running.features = StageWorksOn(stage, signature.sources[number].FeaturesBefore(i));
    running.has_partners = TraitsOf(stage).partners > 0;
    running.decoding = DecodingOf(stage);
    if (!running.decoding.has_value()) continue;
    running.behind = StageBehind(chain, i);
    running.pixel_bytes =
        PixelBytesOf(signature.sources[number].features_after[i], running.features[0]);
  }
}

void StageSizes::Enter(uint32_t stage) {
  const Running& running = running_[stage];
  if (!running.decoding.has_value()) return;
  const auto file = encoded_.find(running.features[0]);
  if (file == encoded_.end()) return;
  DecodeOptions options;
  options.accept_truncated = true;  // whether it is good the decoder will say
  options.scale = running.decoding->scale;
  const auto size = decoder_.Open(file->second, running.decoding->max_pixels, options);
  if (!size.ok()) return;
  const auto pixels = static_cast<uint64_t>(size->height) * static_cast<uint64_t>(size->width);
  seen_[{running.name, running.features[0]}].Add(pixels * running.pixel_bytes);
}

void StageSizes::Leave(uint32_t stage, const StageValues& values) {
  const Running& running = running_[stage];
  // A new record: what the last one left encoded is gone, whatever became of it.
  if (stage == StageObserver::kSource) encoded_.clear();
  for (size_t i = 0; i < std::min(values.size(), running.features.size()); ++i) {
    const bulkhead::Value& value = values[i];
    const std::string& feature = running.features[i];
    if (value.form == bulkhead::Value::Form::kEncoded) {
      encoded_[feature] = {reinterpret_cast<const char*>(value.data), value.size_bytes};
    } else {
      encoded_.erase(feature);
    }
    if (!running.decoding.has_value()) {
      seen_[{running.name, feature}].Add(value.plain_bytes());
    } else {
      left_by_decoders_[{running.behind, feature}].Add(value.plain_bytes());
    }
  }
  // What it put aside for others lies elsewhere now.
  if (running.has_partners) encoded_.clear();
}

void StageSizes::Reset() {
  seen_.clear();
  left_by_decoders_.clear();
}

SeenSize StageSizes::Of(const std::string& stage, const std::string& feature) const {
  for (const Seen* seen : {&seen_, &left_by_decoders_}) {
    const auto found = seen->find({stage, feature});
    if (found != seen->end()) return found->second;
  }
  return {};
}

}  // namespace bulkhead::tools
