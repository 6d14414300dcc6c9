#include "server/stages/geometry/concat.h"
#include "server/stages/geometry/crop.h"
#include "server/stages/geometry/flip.h"
#include "server/stages/geometry/pad.h"
#include "server/stages/geometry/resize.h"
#include "server/stages/running/families.h"

namespace bulkhead {
namespace {

std::unique_ptr<SampleStage> MakeRandomCrop(const StageSite& site) {
  const v1::RandomCrop& spec = site.stage.random_crop();
  if (spec.padding_size() == 0) return std::make_unique<RandomCropStage>(site.place, spec);
  return std::make_unique<PaddedRandomCropStage>(site.place, spec);
}

}  // namespace

std::vector<NumberedMaker> GeometryStages() {
  using Stage = v1::Stage;
  return {
      {Stage::kResize, Make<ResizeStage, &Stage::resize>},
      {Stage::kLetterbox, Make<LetterboxStage, &Stage::letterbox>},
      {Stage::kCenterCrop, Make<CenterCropStage, &Stage::center_crop>},
      {Stage::kRandomCrop, MakeRandomCrop},
      {Stage::kRandomResizedCrop, Make<RandomResizedCropStage, &Stage::random_resized_crop>},
      {Stage::kFiveCrop, Make<FiveCropStage, &Stage::five_crop>},
      {Stage::kRandomHorizontalFlip, Make<RandomFlipStage, &Stage::random_horizontal_flip>},
      {Stage::kRandomVerticalFlip, Make<RandomVerticalFlipStage, &Stage::random_vertical_flip>},
      {Stage::kPad, Make<PadStage, &Stage::pad>},
      {Stage::kRandomZoomOut, Make<RandomZoomOutStage, &Stage::random_zoom_out>},
      {Stage::kConcat, Make<ConcatStage, &Stage::concat>},
  };
}

}  // namespace bulkhead
