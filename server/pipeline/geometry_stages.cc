#include "server/pipeline/geometry_stages.h"

#include "server/pipeline/stage_factory.h"

namespace bulkhead {

std::unique_ptr<CropStage> MakeCropStage(const StageSite& site) {
  switch (site.stage.stage_case()) {
    case v1::Stage::kCenterCrop:
      return std::make_unique<CenterCropStage>(site.place, site.stage.center_crop());
    case v1::Stage::kRandomResizedCrop:
      return std::make_unique<RandomResizedCropStage>(site.place, site.stage.random_resized_crop());
    case v1::Stage::kRandomCrop:
      // With padding it begins by adding pixels.
      if (site.stage.random_crop().padding_size() > 0) return nullptr;
      return std::make_unique<RandomCropStage>(site.place, site.stage.random_crop());
    default:
      return nullptr;
  }
}

std::unique_ptr<SampleStage> MakeGeometryStage(const StageSite& site) {
  switch (site.stage.stage_case()) {
    case v1::Stage::kResize:
      return std::make_unique<ResizeStage>(site.place, site.stage.resize());
    case v1::Stage::kLetterbox:
      return std::make_unique<LetterboxStage>(site.place, site.stage.letterbox());
    case v1::Stage::kRandomHorizontalFlip:
      return std::make_unique<RandomFlipStage>(site.place, site.stage.random_horizontal_flip());
    case v1::Stage::kRandomVerticalFlip:
      return std::make_unique<RandomVerticalFlipStage>(site.place,
                                                       site.stage.random_vertical_flip());
    case v1::Stage::kRandomCrop:
      if (site.stage.random_crop().padding_size() == 0) return MakeCropStage(site);
      return std::make_unique<PaddedRandomCropStage>(site.place, site.stage.random_crop());
    case v1::Stage::kFiveCrop:
      return std::make_unique<FiveCropStage>(site.place, site.stage.five_crop());
    case v1::Stage::kPad:
      return std::make_unique<PadStage>(site.place, site.stage.pad());
    case v1::Stage::kRandomZoomOut:
      return std::make_unique<RandomZoomOutStage>(site.place, site.stage.random_zoom_out());
    case v1::Stage::kConcat:
      return std::make_unique<ConcatStage>(site.place);
    default:
      return MakeCropStage(site);
  }
}

}  // namespace bulkhead
