#include "server/stages/running/registry.h"

#include <map>
#include <vector>

#include "server/stages/running/families.h"

namespace bulkhead {
namespace {

template <typename Maker>
using Makers = std::map<int, Maker>;

// The makers of all `families`, by number.
template <typename Maker>
Makers<Maker> All(std::initializer_list<std::vector<std::pair<int, Maker>> (*)()> families) {
  Makers<Maker> makers;
  for (const auto family : families) {
    for (const auto& maker : family()) makers.insert(maker);
  }
  return makers;
}

}  // namespace

std::unique_ptr<SampleStage> MakeStage(const StageSite& site) {
  static const auto& makers = *new Makers<StageMaker>(All<StageMaker>(
      {AnnotationStages, BoxStages, ColorStages, DecodeStages, FaultStages, GeometryStages,
       MosaicStages, NativeStages, NumberStages, UserStages, WarpStages}));
  const auto maker = makers.find(site.stage.stage_case());
  return maker == makers.end() ? nullptr : maker->second(site);
}

std::unique_ptr<BatchStage> MakeBatchStage(const BatchSite& site) {
  static const auto& makers = *new Makers<BatchStageMaker>(
      All<BatchStageMaker>({MixStages, PackingStages, UserBatchStages}));
  const auto maker = makers.find(site.stage().stage_case());
  return maker == makers.end() ? nullptr : maker->second(site);
}

}  // namespace bulkhead
