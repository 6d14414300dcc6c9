#include "server/image/geometry/erase.h"

#include <cmath>
#include <cstring>

#include "server/image/deterministic_math.h"

namespace bulkhead {
namespace {

constexpr int kTries = 10;

}  // namespace

std::optional<Rect> RandomEraseRect(ImageSize image, const EraseBounds& bounds,
                                    SampleRandom& random) {
  const double image_area = static_cast<double>(image.height) * image.width;
  const double log_low = DeterministicLog(bounds.ratio_low);
  const double log_high = DeterministicLog(bounds.ratio_high);
  for (int i = 0; i < kTries; ++i) {
    const double area = image_area * random.NextUniform(bounds.scale_low, bounds.scale_high);
    const double ratio = DeterministicExp(random.NextUniform(log_low, log_high));
    // Rounded, values beyond any image as well: they stay below 2^52.
    const int64_t height = RoundHalfEven(std::sqrt(area * ratio));
    const int64_t width = RoundHalfEven(std::sqrt(area / ratio));
    if (height >= image.height || width >= image.width) continue;
    const auto top = static_cast<int>(random.NextBelow(image.height - height + 1));
    const auto left = static_cast<int>(random.NextBelow(image.width - width + 1));
    return Rect{top, left, static_cast<int>(height), static_cast<int>(width)};
  }
  return std::nullopt;
}

void EraseRect(const Rect& rect, const uint8_t* fill, const MutableImageView& image) {
  if (rect.height == 0 || rect.width == 0) return;
  const MutableImageView erased = image.Crop(rect);
  uint8_t* first = erased.row(0);
  for (int x = 0; x < erased.width; ++x) {
    for (int c = 0; c < erased.channels; ++c) *first++ = fill[c];
  }
  for (int y = 1; y < erased.height; ++y) {
    std::memcpy(erased.row(y), erased.row(0), erased.row_bytes());
  }
}

}  // namespace bulkhead
