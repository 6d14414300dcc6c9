#include "server/pipeline/geometry_stages.h"

#include "server/image/flip.h"
#include "server/pipeline/stage_factory.h"

namespace bulkhead {
namespace {

constexpr double kDefaultFlipProbability = 0.5;

ResizeMethod MethodOf(v1::Interpolation interpolation) {
  switch (interpolation) {
    case v1::INTERPOLATION_NEAREST:
      return ResizeMethod::kNearest;
    case v1::INTERPOLATION_AREA:
      return ResizeMethod::kArea;
    case v1::INTERPOLATION_CUBIC:
      return ResizeMethod::kCubic;
    default:
      return ResizeMethod::kLinear;
  }
}

// [height, width], or one number for a square.
template <typename Sized>
ImageSize SizeOf(const Sized& spec) {
  return {static_cast<int>(spec.size(0)),
          static_cast<int>(spec.size(spec.size_size() > 1 ? 1 : 0))};
}

absl::Status ResizeValue(Value& value, ImageSize size, ResizeMethod method,
                         const StageContext& context) {
  const size_t size_bytes = static_cast<size_t>(size.height) * size.width * value.pixels.channels;
  const MutableImageView out = ContiguousImage(
      reinterpret_cast<uint8_t*>(context.Result(size_bytes)), size, value.pixels.channels);
  BULKHEAD_RETURN_IF_ERROR(ResizeImage(value.pixels, method, out));
  value.SetPixels(out);
  return absl::OkStatus();
}

}  // namespace

ResizeStage::ResizeStage(StagePlace place, const v1::Resize& spec)
    : ValueStage(std::move(place)), size_(SizeOf(spec)), method_(MethodOf(spec.interpolation())) {}

absl::Status ResizeStage::Run(Value& value, const StageContext& context) const {
  return place().Name(ResizeValue(value, size_, method_, context));
}

absl::Status CropStage::Run(Value& value, const StageContext& context) const {
  BULKHEAD_ASSIGN_OR_RETURN(const Rect rect, ChooseRect(value.image_size, context.key));
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
  return place().Name(ResizeValue(value, size_, method_, context));
}

RandomFlipStage::RandomFlipStage(StagePlace place, const v1::RandomHorizontalFlip& spec)
    : ValueStage(std::move(place)),
      probability_(spec.has_probability() ? spec.probability() : kDefaultFlipProbability) {}

absl::Status RandomFlipStage::Run(Value& value, const StageContext& context) const {
  SampleRandom random = place().Random(context.key);
  if (random.NextUnit() < probability_) {
    FlipHorizontallyInPlace(value.pixels, context.scratch.row);
  }
  return absl::OkStatus();
}

std::unique_ptr<CropStage> MakeCropStage(const StageSite& site) {
  switch (site.stage.stage_case()) {
    case v1::Stage::kCenterCrop:
      return std::make_unique<CenterCropStage>(site.place, site.stage.center_crop());
    case v1::Stage::kRandomResizedCrop:
      return std::make_unique<RandomResizedCropStage>(site.place, site.stage.random_resized_crop());
    default:
      return nullptr;
  }
}

std::unique_ptr<SampleStage> MakeGeometryStage(const StageSite& site) {
  switch (site.stage.stage_case()) {
    case v1::Stage::kResize:
      return std::make_unique<ResizeStage>(site.place, site.stage.resize());
    case v1::Stage::kRandomHorizontalFlip:
      return std::make_unique<RandomFlipStage>(site.place, site.stage.random_horizontal_flip());
    default:
      return MakeCropStage(site);
  }
}

}  // namespace bulkhead
