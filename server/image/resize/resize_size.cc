#include "server/image/resize/resize_size.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

struct Sides {
  int64_t shorter;
  int64_t longer;
};

// a × b / c as a whole number; the factors are extents, so nothing overflows.
int64_t Scaled(int64_t a, int64_t b, int64_t c, bool round) {
  const int64_t whole = round ? (2 * a * b + c) / (2 * c) : a * b / c;
  return std::max<int64_t>(whole, 1);
}

Sides ByShorterSide(const Sides& image, const ResizeRule& rule) {
  Sides sides{rule.side, Scaled(rule.side, image.longer, image.shorter, rule.round)};
  if (rule.max_longer > 0 && sides.longer > rule.max_longer) {
    sides = {Scaled(rule.max_longer, sides.shorter, sides.longer, rule.round), rule.max_longer};
  }
  return sides;
}

// `factor` may be large, but an extent is below 2^31: far from where a double is no whole number.
int64_t Multiplied(int extent, double factor, bool round) {
  const double exact = extent * factor;
  const double whole = round ? std::round(exact) : std::floor(exact);
  return std::max<int64_t>(static_cast<int64_t>(whole), 1);
}

}  // namespace

absl::StatusOr<ImageSize> ResizedSize(ImageSize image, const ResizeRule& rule) {
  if (rule.by == ResizeRule::By::kSize) return rule.size;
  int64_t height = 0;
  int64_t width = 0;
  if (rule.by == ResizeRule::By::kFactor) {
    height = Multiplied(image.height, rule.factor, rule.round);
    width = Multiplied(image.width, rule.factor, rule.round);
  } else {
    const bool upright = image.height > image.width;
    const Sides have = {std::min(image.height, image.width), std::max(image.height, image.width)};
    const Sides sides =
        rule.by == ResizeRule::By::kShorterSide
            ? ByShorterSide(have, rule)
            : Sides{Scaled(rule.side, have.shorter, have.longer, rule.round), rule.side};
    height = upright ? sides.longer : sides.shorter;
    width = upright ? sides.shorter : sides.longer;
  }
  if (static_cast<uint64_t>(height) > rule.max_pixels / static_cast<uint64_t>(width)) {
    return SampleError(
        reason::kImageTooLarge,
        absl::StrCat("an image of ", image.height, " x ", image.width, " pixels (height x width) ",
                     "would become ", height, " x ", width, ", more than ", rule.max_pixels,
                     " pixels; bound it with max_size, use a smaller size, or remove the image"));
  }
  return ImageSize{static_cast<int>(height), static_cast<int>(width)};
}

ImageSize FittingSize(ImageSize image, ImageSize box) {
  const int64_t height = image.height;
  const int64_t width = image.width;
  if (box.width * height <= box.height * width) {
    const int64_t fitted = Scaled(height, box.width, width, true);
    return {static_cast<int>(std::min<int64_t>(fitted, box.height)), box.width};
  }
  const int64_t fitted = Scaled(width, box.height, height, true);
  return {box.height, static_cast<int>(std::min<int64_t>(fitted, box.width))};
}

}  // namespace bulkhead
