#ifndef BULKHEAD_SERVER_PIPELINE_RESIZE_STAGES_H_
#define BULKHEAD_SERVER_PIPELINE_RESIZE_STAGES_H_

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/image.h"
#include "server/image/pad.h"
#include "server/image/resize.h"
#include "server/image/resize_size.h"
#include "server/pipeline/sample_stage.h"

namespace bulkhead {

// Resizes the value's pixels into the stage's result, as OpenCV does.
absl::Status ResizeValue(Value& value, ImageSize size, ResizeMethod method,
                         const StageContext& context);

// `resize`. Sample error: IMAGE_TOO_LARGE, for a computed size.
class ResizeStage : public ValueStage {
 public:
  ResizeStage(StagePlace place, const v1::Resize& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  absl::Status Resample(const ImageView& in, const MutableImageView& out,
                        StageScratch& scratch) const;

  ResizeRule rule_;
  ResizeMethod method_;
  bool antialias_;
  v1::PixelCenters centers_;
};

// `letterbox`.
class LetterboxStage : public ValueStage {
 public:
  LetterboxStage(StagePlace place, const v1::Letterbox& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  ImageSize size_;
  ResizeMethod method_;
  PixelFill fill_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_RESIZE_STAGES_H_
