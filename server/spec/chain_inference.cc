#include "server/spec/chain_inference.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/nearest_name.h"
#include "server/spec/stage_signature.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
void ChainInference::InferSource() {
  for (const absl::Status& status : {CheckCaches(chain_), CheckPartners(chain_)}) {
    if (!status.ok()) problems_.Add(status);
  }
  const std::string prefix = chain_.path.empty() ? "" : chain_.path + ".";
  auto features = ChainFeatures(chain_, problems_, unknown_);
  // A list that could not be read may have held anything.
  is_lost_ = !features.has_value() || problems_.AnyAt("stages") ||
             problems_.AnyAt(prefix + "stages") || problems_.AnyAt(prefix + "features");
  if (features.has_value()) signature_.source_features = *std::move(features);
}

void ChainInference::InferStages(size_t end) {
  for (size_t i = signature_.features_after.size(); i < end && !is_lost_; ++i) {
    const std::vector<FeatureSignature>& features = signature_.FeaturesBefore(i);
    if (features.size() > room_) {
      problems_.Add("stages", absl::StrCat("are too many for so many features: counted once behind "
                                           "each stage, at most ",
                                           kMostFeaturesOfStages, " are served; leave out some"));
      is_lost_ = true;
      return;
    }
    room_ -= features.size();
    signature_.features_after.push_back(features);
    InferStep(chain_.steps[i]);
  }
}

void ChainInference::InferStep(const SourceChain::Step& step) {
  const std::vector<std::string> reads = StageReads(*step.stage);
  const bool reads_unknown = std::any_of(reads.begin(), reads.end(), [&](const std::string& name) {
    return unknown_.count(name) > 0;
  });
  if (reads_unknown || problems_.AnyAtOrBelow(step.path)) return Forget(*step.stage);
  std::vector<FeatureSignature> features = signature_.features_after.back();
  const absl::Status status = InferStage(*step.stage, StepPath(step), features);
  if (status.ok()) {
    signature_.features_after.back() = std::move(features);
  } else {
    problems_.Add(status);
    Forget(*step.stage);
  }
}

void ChainInference::Forget(const v1::Stage& stage) {
  const std::vector<FeatureSignature>& features = signature_.features_after.back();
  std::vector<std::string> names;
  for (const FeatureSignature& feature : features) names.push_back(feature.name);
  is_lost_ = stage.stage_case() == v1::Stage::STAGE_NOT_SET;
  std::vector<std::string> reads = StageReads(stage);
  // The image of boxes stays what it is.
  if (TraitsOf(stage).declares) reads.resize(1);
  for (const std::string& name : reads) {
    // A misspelt feature is the one that it resembles; else it may be any.
    const bool known = FindFeature(features, name) != nullptr || unknown_.count(name) > 0;
    const std::string meant = known ? name : NearestName(name, names);
    is_lost_ |= meant.empty();
    // Whoever else asks for it under that name was told.
    unknown_.insert(name);
    unknown_.insert(meant);
  }
  for (std::string& name : StageMakes(stage)) unknown_.insert(std::move(name));
}

}  // namespace bulkhead
