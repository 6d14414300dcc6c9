#include "server/stages/geometry/resize.h"

#include "server/image/resize/legacy_resize.h"
#include "server/image/resize/resample.h"
#include "server/spec/stage_signature.h"
#include "server/stages/running/common_options.h"

namespace bulkhead {
namespace {

ResizeRule RuleOf(const v1::Resize& spec) {
  ResizeRule rule;
  rule.round = spec.rounding() == v1::ROUNDING_ROUND;
  rule.max_pixels = kDefaultMaxPixels;
  if (spec.shorter_side() > 0) {
    rule.by = ResizeRule::By::kShorterSide;
    rule.side = spec.shorter_side();
    rule.max_longer = spec.max_size();
  } else if (spec.longer_side() > 0) {
    rule.by = ResizeRule::By::kLongerSide;
    rule.side = spec.longer_side();
  } else if (spec.factor() > 0) {
    rule.by = ResizeRule::By::kFactor;
    rule.factor = spec.factor();
  } else {
    rule.size = SizeOf(spec);
  }
  return rule;
}

}  // namespace

void ResizeAntialiased(Value& value, ImageSize size, ResizeMethod method,
                       const StageContext& context) {
  const bool cubic = method == ResizeMethod::kCubic;
  const MutableImageView out = ResultImage(size, value.pixels.channels, context);
  ResampleImage(value.pixels, cubic ? ResampleFilter::kCubic : ResampleFilter::kLinear, out,
                context.scratch.resample);
  context.Moved(Geometry::Resize(value.pixels.size(), size));
  value.SetPixels(out);
}

ResizeStage::ResizeStage(StagePlace place, const v1::Resize& spec)
    : ValueStage(std::move(place)),
      rule_(RuleOf(spec)),
      method_(MethodOf(spec.interpolation())),
      antialias_(spec.antialias()),
      centers_(spec.centers()) {}

bool ResizeStage::IsPlain() const { return !antialias_ && !OldCenters().has_value(); }

std::optional<LegacyCenters> ResizeStage::OldCenters() const {
  if (centers_ == v1::PIXEL_CENTERS_CORNER) return LegacyCenters::kCorner;
  if (centers_ == v1::PIXEL_CENTERS_ALIGNED) return LegacyCenters::kAligned;
  return std::nullopt;
}

absl::Status ResizeStage::Run(Value& value, const StageContext& context) const {
  const absl::StatusOr<ImageSize> size = ResizedSize(value.image_size, rule_);
  if (!size.ok()) return place().Name(size.status());
  if (IsPlain()) return place().Name(pass_.Run(value, *size, method_, context));
  if (antialias_) {
    ResizeAntialiased(value, *size, method_, context);
    return absl::OkStatus();
  }
  const MutableImageView out = ResultImage(*size, value.pixels.channels, context);
  const bool nearest = method_ == ResizeMethod::kNearest;
  (nearest ? LegacyResizeNearest : LegacyResizeLinear)(value.pixels, *OldCenters(), out,
                                                       context.scratch.row);
  context.Moved(Geometry::Resize(value.image_size, *size, OldCenters()));
  value.SetPixels(out);
  return absl::OkStatus();
}

LetterboxStage::LetterboxStage(StagePlace place, const v1::Letterbox& spec)
    : ValueStage(std::move(place)),
      size_(SizeOf(spec)),
      method_(MethodOf(spec.interpolation())),
      fill_(FillOf(spec)) {}

absl::Status LetterboxStage::Run(Value& value, const StageContext& context) const {
  const ImageSize inner = FittingSize(value.image_size, size_);
  const Rect kept = {(size_.height - inner.height) / 2, (size_.width - inner.width) / 2,
                     inner.height, inner.width};
  const MutableImageView out = ResultImage(size_, value.pixels.channels, context);
  BULKHEAD_RETURN_IF_ERROR(place().Name(ResizeImage(
      value.pixels, method_, out.Crop(kept), context.scratch.resizer, context.target != nullptr)));
  FillAround(out, kept, fill_);
  context.Moved(Geometry::Resize(value.image_size, inner));
  context.Moved(Geometry::Place(inner, size_, kept.top, kept.left));
  value.SetPixels(out);
  return absl::OkStatus();
}

}  // namespace bulkhead
