#include "server/stages/geometry/pad.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/spec/stage_signature.h"

namespace bulkhead {

PadStage::PadStage(StagePlace place, const v1::Pad& spec)
    : ValueStage(std::move(place)), padding_(MarginsOf(spec)), fill_(FillOf(spec)) {
  if (spec.size_size() > 0) size_ = SizeOf(spec);
}

namespace {

// `size`, computed from an image, if it is not too large.
absl::StatusOr<ImageSize> Allowed(int64_t height, int64_t width) {
  if (height * width <= static_cast<int64_t>(kDefaultMaxPixels)) {
    return ImageSize{static_cast<int>(height), static_cast<int>(width)};
  }
  return SampleError(reason::kImageTooLarge,
                     absl::StrCat("with what is added the image would have ", height, " x ", width,
                                  " pixels (height x width), more than ", kDefaultMaxPixels,
                                  "; crop or resize first"));
}

}  // namespace

absl::StatusOr<ImageSize> PadStage::PaddedSize(ImageSize image) const {
  if (size_.height > 0) {
    if (image.height <= size_.height && image.width <= size_.width) return size_;
    return SampleError(reason::kImageTooLarge,
                       absl::StrCat("the image has ", image.height, " x ", image.width,
                                    " pixels (height x width), more than the ", size_.height, " x ",
                                    size_.width, " it should be padded to; crop or resize first"));
  }
  return Allowed(int64_t{image.height} + padding_.top + padding_.bottom,
                 int64_t{image.width} + padding_.left + padding_.right);
}

absl::Status PadStage::Run(Value& value, const StageContext& context) const {
  const absl::StatusOr<ImageSize> size = PaddedSize(value.image_size);
  if (!size.ok()) return place().Name(size.status());
  const MutableImageView out = ResultImage(*size, value.pixels.channels, context);
  PlaceImage(value.pixels, padding_.top, padding_.left, fill_, out);
  context.Moved(Geometry::Place(value.image_size, *size, padding_.top, padding_.left));
  value.SetPixels(out);
  return absl::OkStatus();
}

RandomZoomOutStage::RandomZoomOutStage(StagePlace place, const v1::RandomZoomOut& spec)
    : ValueStage(std::move(place)),
      low_(spec.side_range(0)),
      high_(spec.side_range(1)),
      probability_(spec.probability()),
      fill_(FillOf(spec)) {}

absl::Status RandomZoomOutStage::Run(Value& value, const StageContext& context) const {
  SampleRandom random = place().Random(context.key);
  if (random.NextUnit() >= probability_) return absl::OkStatus();
  const ImageSize image = value.image_size;
  const double factor = random.NextUniform(low_, high_);
  const absl::StatusOr<ImageSize> canvas = Allowed(static_cast<int64_t>(image.height * factor),
                                                   static_cast<int64_t>(image.width * factor));
  if (!canvas.ok()) return place().Name(canvas.status());
  const int left = static_cast<int>((canvas->width - image.width) * random.NextUnit());
  const int top = static_cast<int>((canvas->height - image.height) * random.NextUnit());
  const MutableImageView out = ResultImage(*canvas, value.pixels.channels, context);
  PlaceImage(value.pixels, top, left, fill_, out);
  context.Moved(Geometry::Place(image, *canvas, top, left));
  value.SetPixels(out);
  return absl::OkStatus();
}

}  // namespace bulkhead
