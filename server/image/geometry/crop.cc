#include "server/image/geometry/crop.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/image/deterministic_math.h"

namespace bulkhead {
namespace {

constexpr int kTries = 10;

Rect Central(ImageSize image, int64_t height, int64_t width) {
  const int h = static_cast<int>(std::clamp<int64_t>(height, 1, image.height));
  const int w = static_cast<int>(std::clamp<int64_t>(width, 1, image.width));
  return {(image.height - h) / 2, (image.width - w) / 2, h, w};
}

absl::Status CheckFits(ImageSize image, ImageSize wanted) {
  if (wanted.height <= image.height && wanted.width <= image.width) return absl::OkStatus();
  return SampleError(
      reason::kImageTooSmall,
      absl::StrCat("the image has ", image.height, " x ", image.width,
                   " pixels (height x width), fewer than the crop's ", wanted.height, " x ",
                   wanted.width, "; put a resize before the crop, or remove the image"));
}

}  // namespace

absl::StatusOr<Rect> CenterCropRect(ImageSize image, ImageSize wanted) {
  BULKHEAD_RETURN_IF_ERROR(CheckFits(image, wanted));
  return Central(image, wanted.height, wanted.width);
}

absl::StatusOr<Rect> RandomPlaceRect(ImageSize image, ImageSize wanted, SampleRandom& random) {
  BULKHEAD_RETURN_IF_ERROR(CheckFits(image, wanted));
  const auto top = static_cast<int>(random.NextBelow(image.height - wanted.height + 1));
  const auto left = static_cast<int>(random.NextBelow(image.width - wanted.width + 1));
  return Rect{top, left, wanted.height, wanted.width};
}

Rect RandomCropRect(ImageSize image, const RandomCropBounds& bounds, SampleRandom& random) {
  const double image_area = static_cast<double>(image.height) * image.width;
  const double log_low = DeterministicLog(bounds.ratio_low);
  const double log_high = DeterministicLog(bounds.ratio_high);
  for (int i = 0; i < kTries; ++i) {
    const double area = image_area * random.NextUniform(bounds.scale_low, bounds.scale_high);
    const double ratio = DeterministicExp(random.NextUniform(log_low, log_high));
    // std::sqrt is correctly rounded by IEEE 754. Values beyond any image are not rounded at all.
    const double exact_width = std::sqrt(area * ratio);
    const double exact_height = std::sqrt(area / ratio);
    if (exact_width > image.width + 1.0 || exact_height > image.height + 1.0) continue;
    const int64_t width = RoundHalfEven(exact_width);
    const int64_t height = RoundHalfEven(exact_height);
    if (width < 1 || width > image.width || height < 1 || height > image.height) continue;
    const auto top = static_cast<int>(random.NextBelow(image.height - height + 1));
    const auto left = static_cast<int>(random.NextBelow(image.width - width + 1));
    return {top, left, static_cast<int>(height), static_cast<int>(width)};
  }
  const double image_ratio = static_cast<double>(image.width) / image.height;
  if (image_ratio < bounds.ratio_low) {
    return Central(image, RoundHalfEven(image.width / bounds.ratio_low), image.width);
  }
  if (image_ratio > bounds.ratio_high) {
    return Central(image, image.height, RoundHalfEven(image.height * bounds.ratio_high));
  }
  return Central(image, image.height, image.width);
}

}  // namespace bulkhead
