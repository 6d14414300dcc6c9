#pragma once

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/geometry/crop.h"
#include "server/image/geometry/pad.h"
#include "server/image/image.h"
#include "server/image/resize/resize.h"
#include "server/stages/geometry/resize_pass.h"
#include "server/stages/running/common_options.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {

// A stage that first cuts a rectangle out of its image. The cut is separate from the rest, so that
// a decoder can decode only the rectangle.
class CropStage : public ValueStage {
 public:
  using ValueStage::ValueStage;
  absl::Status Run(Value& value, const StageContext& context) const override;

  // The rectangle, inside an image of `size`: a function of the sample's key alone. Sample error
  // with this stage's name: IMAGE_TOO_SMALL.
  virtual absl::StatusOr<Rect> ChooseRect(ImageSize size, const SampleKey& key) const = 0;
  // Does the rest with the pixels of the rectangle.
  virtual absl::Status Finish(Value& value, const StageContext& context) const = 0;
  bool TakeBehind(std::unique_ptr<SampleStage>& next, bool fuse) final {
    return fuse && pass() != nullptr && pass()->TakeBehind(next);
  }

 private:
  // If the stage then resizes like OpenCV: the pass that includes later stages. Else null.
  virtual ResizePass* pass() { return nullptr; }
};

// `center_crop`: the result is a view.
class CenterCropStage : public CropStage {
 public:
  CenterCropStage(StagePlace place, const v1::CenterCrop& spec);
  absl::StatusOr<Rect> ChooseRect(ImageSize size, const SampleKey& key) const override;
  absl::Status Finish(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kViews; }

 private:
  ImageSize size_;
};

// `five_crop`: four corners and the centre, stacked.
class FiveCropStage final : public ValueStage {
 public:
  FiveCropStage(StagePlace place, const v1::FiveCrop& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  ImageSize size_;
};

// `random_resized_crop`.
class RandomResizedCropStage : public CropStage {
 public:
  RandomResizedCropStage(StagePlace place, const v1::RandomResizedCrop& spec);
  absl::StatusOr<Rect> ChooseRect(ImageSize size, const SampleKey& key) const override;
  absl::Status Finish(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  ResizePass* pass() override { return antialias_ ? nullptr : &pass_; }

  ImageSize size_;
  ResizeMethod method_;
  bool antialias_;
  RandomCropBounds bounds_;
  ResizePass pass_;
};

// `random_crop` without padding: the result is a view. Draws as RandomPlaceRect.
class RandomCropStage : public CropStage {
 public:
  RandomCropStage(StagePlace place, const v1::RandomCrop& spec);
  absl::StatusOr<Rect> ChooseRect(ImageSize size, const SampleKey& key) const override;
  absl::Status Finish(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kViews; }

 private:
  ImageSize size_;
};

// `random_crop` with padding: the same rectangle of the padded image; only the rectangle is made.
class PaddedRandomCropStage : public ValueStage {
 public:
  PaddedRandomCropStage(StagePlace place, const v1::RandomCrop& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  ImageSize size_;
  Margins padding_;
  PixelFill fill_;
};

}  // namespace bulkhead
