#include "server/pipeline/stage_factory.h"

#include <algorithm>

#include "server/spec/stage_signature.h"

namespace bulkhead {

size_t ChannelsBefore(const StageSite& site) {
  const std::string name = StageReads(site.stage)[0];
  const auto feature =
      std::find_if(site.before.begin(), site.before.end(),
                   [&](const FeatureSignature& candidate) { return candidate.name == name; });
  return static_cast<size_t>(feature->shape.back());
}

std::unique_ptr<SampleStage> MakeStage(const StageSite& site) {
  for (auto* family : {MakeGeometryStage, MakeColorStage, MakeWarpStage, MakeBoxStage,
                       MakeMosaicStage, MakeNumberStage, MakeUserStage, MakeFaultStage}) {
    std::unique_ptr<SampleStage> stage = family(site);
    if (stage != nullptr) return stage;
  }
  return nullptr;
}

}  // namespace bulkhead
