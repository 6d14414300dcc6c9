#include "server/image/boxes/iou_crop.h"

namespace bulkhead {
namespace {

constexpr int kRounds = 50;

Box BoxOf(const Rect& rect) {
  return {static_cast<double>(rect.left), static_cast<double>(rect.top),
          static_cast<double>(rect.right()), static_cast<double>(rect.bottom())};
}

// Whether a box with its middle inside `rect` overlaps it at least by `least`.
bool OverlapsEnough(const Rect& rect, absl::Span<const Box> boxes, double least) {
  for (const Box& box : boxes) {
    if (HasMiddleIn(box, rect) && Overlap(box, BoxOf(rect)) >= least) return true;
  }
  return false;
}

std::optional<Rect> TryRect(ImageSize image, const IouCropBounds& bounds, SampleRandom& random) {
  const int width =
      static_cast<int>(image.width * random.NextUniform(bounds.scale_low, bounds.scale_high));
  const int height =
      static_cast<int>(image.height * random.NextUniform(bounds.scale_low, bounds.scale_high));
  if (width < 1 || height < 1) return std::nullopt;
  const double ratio = static_cast<double>(width) / height;
  if (!(ratio >= bounds.ratio_low && ratio <= bounds.ratio_high)) return std::nullopt;
  const int left = static_cast<int>((image.width - width) * random.NextUnit());
  const int top = static_cast<int>((image.height - height) * random.NextUnit());
  return Rect{top, left, height, width};
}

}  // namespace

bool HasMiddleIn(const Box& box, const Rect& rect) {
  const double x = 0.5 * (box.left + box.right);
  const double y = 0.5 * (box.top + box.bottom);
  return x > rect.left && x < rect.right() && y > rect.top && y < rect.bottom();
}

std::optional<Rect> RandomIouRect(ImageSize image, absl::Span<const Box> boxes,
                                  const IouCropBounds& bounds, SampleRandom& random) {
  if (boxes.empty()) return std::nullopt;
  for (int round = 0; round < kRounds; ++round) {
    const double least = bounds.min_overlaps[random.NextBelow(bounds.min_overlaps.size())];
    if (least >= 1) return std::nullopt;
    for (int trial = 0; trial < bounds.trials; ++trial) {
      const std::optional<Rect> rect = TryRect(image, bounds, random);
      if (rect.has_value() && OverlapsEnough(*rect, boxes, least)) return rect;
    }
  }
  return std::nullopt;
}

}  // namespace bulkhead
