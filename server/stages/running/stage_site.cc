#include "server/stages/running/stage_site.h"

#include <algorithm>

#include "server/spec/stage_signature.h"

namespace bulkhead {
namespace {

const FeatureSignature& Named(const std::vector<FeatureSignature>& features,
                              const std::string& name) {
  return *std::find_if(features.begin(), features.end(),
                       [&](const FeatureSignature& feature) { return feature.name == name; });
}

}  // namespace

const FeatureSignature& StageSite::Input(size_t i) const {
  return Named(before, StageReads(stage)[i]);
}

const FeatureSignature& StageSite::Output(size_t i) const {
  return Named(after, StageReads(stage)[i]);
}

const FeatureSignature& StageSite::InputNamed(const std::string& name) const {
  return Named(before, name);
}

}  // namespace bulkhead
