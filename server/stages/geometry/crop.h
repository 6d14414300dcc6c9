#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/base/error.h"
#include "server/image/geometry/geometry.h"
#include "server/image/image.h"
#include "server/stages/geometry/resize_pass.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {

// A stage that first cuts a rectangle out of its image. The cut is separate from the rest, so that
// a decoder can decode only the rectangle.
class CropStage : public ValueStage {
 public:
  using ValueStage::ValueStage;
  absl::Status Run(Value& value, const StageContext& context) const override {
    BULKHEAD_ASSIGN_OR_RETURN(const Rect rect, ChooseRect(value.image_size, context.key));
    context.Moved(Geometry::Crop(value.image_size, rect));
    value.SetPixels(value.pixels.Crop(rect));
    return Finish(value, context);
  }

  // The rectangle, inside an image of `size`: a function of the sample's key alone. Sample error
  // with this stage's name: IMAGE_TOO_SMALL.
  virtual absl::StatusOr<Rect> ChooseRect(ImageSize size, const SampleKey& key) const = 0;
  // Does the rest with the pixels of the rectangle; here nothing: the result is a view.
  virtual absl::Status Finish(Value&, const StageContext&) const { return absl::OkStatus(); }
  Effect effect() const override { return Effect::kViews; }
  bool TakeBehind(std::unique_ptr<SampleStage>& next, bool fuse) final {
    return fuse && pass() != nullptr && pass()->TakeBehind(next);
  }

 private:
  // If the stage then resizes like OpenCV: the pass that includes later stages. Else null.
  virtual ResizePass* pass() { return nullptr; }
};

}  // namespace bulkhead
