#pragma once

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/boxes/boxes.h"
#include "server/image/boxes/iou_crop.h"
#include "server/stages/running/sample_stage.h"
#include "server/stages/running/stage_site.h"

namespace bulkhead {

// `random_iou_crop`: an image and its boxes. The image becomes a view. Boxes whose centre is not in
// the rectangle become empty, at the rectangle's corner; the planner moves all of them. Draws: see
// RandomIouRect.
class IouCropStage : public SampleStage {
 public:
  IouCropStage(const StageSite& site, const v1::RandomIouCrop& spec);
  absl::Status RunOn(const StageValues& values, const StageContext& context) const override;
  Effect effect() const override { return Effect::kViews; }

 private:
  IouCropBounds bounds_;
  BoxCoding coding_;
};

}  // namespace bulkhead
