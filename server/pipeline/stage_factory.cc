#include "server/pipeline/stage_factory.h"

namespace bulkhead {

std::unique_ptr<SampleStage> MakeStage(const StageSite& site) {
  for (auto* family :
       {MakeGeometryStage, MakeColorStage, MakeNumberStage, MakeUserStage, MakeFaultStage}) {
    std::unique_ptr<SampleStage> stage = family(site);
    if (stage != nullptr) return stage;
  }
  return nullptr;
}

}  // namespace bulkhead
