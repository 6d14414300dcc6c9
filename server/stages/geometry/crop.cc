#include "server/stages/geometry/crop.h"

#include <cstring>
#include <iterator>

#include "server/stages/geometry/resize.h"

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

FiveCropStage::FiveCropStage(StagePlace place, const v1::FiveCrop& spec)
    : ValueStage(std::move(place)), size_(SizeOf(spec)) {}

absl::Status FiveCropStage::Run(Value& value, const StageContext& context) const {
  const MutableImageView& pixels = value.pixels;
  const absl::StatusOr<Rect> centre = CenterCropRect(pixels.size(), size_);
  if (!centre.ok()) return place().Name(centre.status());
  const int right = pixels.width - size_.width;
  const int bottom = pixels.height - size_.height;
  Rect rects[] = {*centre, *centre, *centre, *centre, *centre};
  for (int corner = 0; corner < 4; ++corner) {
    rects[corner].left = corner % 2 == 0 ? 0 : right;
    rects[corner].top = corner < 2 ? 0 : bottom;
  }
  const size_t row_bytes = static_cast<size_t>(size_.width) * pixels.channels;
  const size_t size_bytes = std::size(rects) * row_bytes * size_.height;
  std::byte* const result = context.Result(size_bytes);
  std::byte* at = result;
  for (const Rect& rect : rects) {
    const MutableImageView crop = pixels.Crop(rect);
    for (int y = 0; y < crop.height; ++y, at += row_bytes) std::memcpy(at, crop.row(y), row_bytes);
  }
  value.is_image = false;
  value.image_size = size_;
  value.stacked = static_cast<int>(std::size(rects));
  value.SetElements(v1::DTYPE_UINT8, result, size_bytes);
  return absl::OkStatus();
}

RandomResizedCropStage::RandomResizedCropStage(StagePlace place, const v1::RandomResizedCrop& spec)
    : CropStage(std::move(place)),
      size_(SizeOf(spec)),
      method_(MethodOf(spec.interpolation())),
      antialias_(spec.antialias()),
      bounds_{spec.scale(0), spec.scale(1), spec.ratio(0), spec.ratio(1)} {}

absl::StatusOr<Rect> RandomResizedCropStage::ChooseRect(ImageSize size,
                                                        const SampleKey& key) const {
  SampleRandom random = place().Random(key);
  return RandomCropRect(size, bounds_, random);
}

absl::Status RandomResizedCropStage::Finish(Value& value, const StageContext& context) const {
  if (!antialias_) return place().Name(pass_.Run(value, size_, method_, context));
  ResizeAntialiased(value, size_, method_, context);
  return absl::OkStatus();
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
