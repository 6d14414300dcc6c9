#pragma once

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/geometry/pad.h"
#include "server/image/image.h"
#include "server/stages/running/common_options.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {

// `pad`. Sample errors: IMAGE_TOO_LARGE, if the image is larger than `size`, or the result would
// have more pixels than a decoder may give.
class PadStage : public ValueStage {
 public:
  PadStage(StagePlace place, const v1::Pad& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  absl::StatusOr<ImageSize> PaddedSize(ImageSize image) const;

  // The size of all results; 0 × 0: the image's size plus the padding.
  ImageSize size_;
  Margins padding_;
  PixelFill fill_;
};

// `random_zoom_out`. Draws NextUnit() and acts if that is below the probability; then NextUniform
// for the canvas's sides, and NextUnit() for the left and for the top, as shares of the added
// pixels; all truncated to whole pixels. Sample error: IMAGE_TOO_LARGE, if the canvas would have
// more pixels than a decoder may give.
class RandomZoomOutStage : public ValueStage {
 public:
  RandomZoomOutStage(StagePlace place, const v1::RandomZoomOut& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  double low_;
  double high_;
  double probability_;
  PixelFill fill_;
};

}  // namespace bulkhead
