#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "server/stages/running/batch_site.h"
#include "server/stages/running/batch_stage.h"
#include "server/stages/running/sample_stage.h"
#include "server/stages/running/stage_site.h"

namespace bulkhead {

// Makes the running stage of one kind; and such a maker with the number of the kind's field in
// v1::Stage.
using StageMaker = std::unique_ptr<SampleStage> (*)(const StageSite& site);
using NumberedMaker = std::pair<int, StageMaker>;

// The maker of `Stage`, whose options are those that `kOptions` takes out of a v1::Stage:
//
//   {v1::Stage::kPad, Make<PadStage, &v1::Stage::pad>}
//
// A stage is made from its place and its options. A stage that must know its neighbours takes a
// StageSite instead of the place.
template <typename Stage, auto kOptions>
std::unique_ptr<SampleStage> Make(const StageSite& site) {
  const auto& options = (site.stage.*kOptions)();
  if constexpr (std::is_constructible_v<Stage, const StageSite&, decltype(options)>) {
    return std::make_unique<Stage>(site, options);
  } else {
    return std::make_unique<Stage>(site.place, options);
  }
}

// The same of batch stages; all of them take a BatchSite.
using BatchStageMaker = std::unique_ptr<BatchStage> (*)(const BatchSite& site);
using NumberedBatchMaker = std::pair<int, BatchStageMaker>;

template <typename Stage, auto kOptions>
std::unique_ptr<BatchStage> MakeBatch(const BatchSite& site) {
  return std::make_unique<Stage>(site, (site.stage().*kOptions)());
}

// The running stages by family. Each family has a folder in server/stages and an entry in the list
// of registry.cc; that of the user's code has one for each kind of code.
std::vector<NumberedMaker> AnnotationStages();
std::vector<NumberedMaker> BoxStages();
std::vector<NumberedMaker> ColorStages();
std::vector<NumberedMaker> DecodeStages();
std::vector<NumberedMaker> FaultStages();
std::vector<NumberedMaker> GeometryStages();
std::vector<NumberedMaker> MosaicStages();
std::vector<NumberedMaker> NativeStages();
std::vector<NumberedMaker> NumberStages();
std::vector<NumberedMaker> UserStages();
std::vector<NumberedMaker> WarpStages();

std::vector<NumberedBatchMaker> MixStages();
std::vector<NumberedBatchMaker> PackingStages();
std::vector<NumberedBatchMaker> UserBatchStages();

}  // namespace bulkhead
