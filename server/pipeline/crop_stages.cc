#include "server/pipeline/crop_stages.h"

#include "server/pipeline/resize_stages.h"

namespace bulkhead {

absl::Status CropStage::Run(Value& value, const StageContext& context) const {
  BULKHEAD_ASSIGN_OR_RETURN(const Rect rect, ChooseRect(value.image_size, context.key));
  context.Moved(Geometry::Crop(value.image_size, rect));
  value.SetPixels(value.pixels.Crop(rect));
  return Finish(value, context);
}

CenterCropStage::CenterCropStage(StagePlace place, const v1::CenterCrop& spec)
    : CropStage(std::move(place)), size_(SizeOf(spec)) {}

absl::StatusOr<Rect> CenterCropStage::ChooseRect(ImageSize size, const SampleKey&) const {
  absl::StatusOr<Rect> rect = CenterCropRect(size, size_);
  if (!rect.ok()) return place().Name(rect.status());
  return rect;
}

absl::Status CenterCropStage::Finish(Value&, const StageContext&) const { return absl::OkStatus(); }

RandomResizedCropStage::RandomResizedCropStage(StagePlace place, const v1::RandomResizedCrop& spec)
    : CropStage(std::move(place)), size_(SizeOf(spec)), method_(MethodOf(spec.interpolation())) {
  if (spec.scale_size() == 2) {
    bounds_.scale_low = spec.scale(0);
    bounds_.scale_high = spec.scale(1);
  }
  if (spec.ratio_size() == 2) {
    bounds_.ratio_low = spec.ratio(0);
    bounds_.ratio_high = spec.ratio(1);
  }
}

absl::StatusOr<Rect> RandomResizedCropStage::ChooseRect(ImageSize size,
                                                        const SampleKey& key) const {
  SampleRandom random = place().Random(key);
  return RandomCropRect(size, bounds_, random);
}

absl::Status RandomResizedCropStage::Finish(Value& value, const StageContext& context) const {
  return place().Name(pass_.Run(value, size_, method_, context));
}

RandomCropStage::RandomCropStage(StagePlace place, const v1::RandomCrop& spec)
    : CropStage(std::move(place)), size_(SizeOf(spec)) {}

absl::StatusOr<Rect> RandomCropStage::ChooseRect(ImageSize size, const SampleKey& key) const {
  SampleRandom random = place().Random(key);
  absl::StatusOr<Rect> rect = RandomPlaceRect(size, size_, random);
  if (!rect.ok()) return place().Name(rect.status());
  return rect;
}

absl::Status RandomCropStage::Finish(Value&, const StageContext&) const { return absl::OkStatus(); }

PaddedRandomCropStage::PaddedRandomCropStage(StagePlace place, const v1::RandomCrop& spec)
    : ValueStage(std::move(place)),
      size_(SizeOf(spec)),
      padding_(MarginsOf(spec)),
      fill_(FillOf(spec)) {}

absl::Status PaddedRandomCropStage::Run(Value& value, const StageContext& context) const {
  const ImageSize padded = {value.image_size.height + padding_.top + padding_.bottom,
                            value.image_size.width + padding_.left + padding_.right};
  SampleRandom random = place().Random(context.key);
  const absl::StatusOr<Rect> rect = RandomPlaceRect(padded, size_, random);
  if (!rect.ok()) return place().Name(rect.status());
  const MutableImageView out = ResultImage(size_, value.pixels.channels, context);
  const int top = padding_.top - rect->top;
  const int left = padding_.left - rect->left;
  PlaceImage(value.pixels, top, left, fill_, out);
  context.Moved(Geometry::Place(value.image_size, size_, top, left));
  value.SetPixels(out);
  return absl::OkStatus();
}

}  // namespace bulkhead
