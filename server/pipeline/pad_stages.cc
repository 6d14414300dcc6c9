#include "server/pipeline/pad_stages.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/spec/stage_signature.h"

namespace bulkhead {

PadStage::PadStage(StagePlace place, const v1::Pad& spec)
    : ValueStage(std::move(place)), padding_(MarginsOf(spec)), fill_(FillOf(spec)) {
  if (spec.size_size() > 0) size_ = SizeOf(spec);
}

absl::StatusOr<ImageSize> PadStage::PaddedSize(ImageSize image) const {
  if (size_.height > 0) {
    if (image.height <= size_.height && image.width <= size_.width) return size_;
    return SampleError(reason::kImageTooLarge,
                       absl::StrCat("the image has ", image.height, " x ", image.width,
                                    " pixels (height x width), more than the ", size_.height, " x ",
                                    size_.width, " it should be padded to; crop or resize first"));
  }
  const ImageSize padded = {image.height + padding_.top + padding_.bottom,
                            image.width + padding_.left + padding_.right};
  if (static_cast<uint64_t>(padded.height) * padded.width <= kDefaultMaxPixels) return padded;
  return SampleError(reason::kImageTooLarge,
                     absl::StrCat("with its padding the image would have ", padded.height, " x ",
                                  padded.width, " pixels (height x width), more than ",
                                  kDefaultMaxPixels, "; crop or resize first"));
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

}  // namespace bulkhead
