#include "server/image/geometry/pad.h"

#include <algorithm>
#include <cstring>

namespace bulkhead {
namespace {

// `pixels` pixels from `out` on.
void FillRun(uint8_t* out, int pixels, int channels, const PixelFill& fill) {
  if (fill.size() == 1) {
    std::memset(out, fill[0], static_cast<size_t>(pixels) * channels);
    return;
  }
  for (int x = 0; x < pixels; ++x) {
    for (int c = 0; c < channels; ++c) *out++ = fill[c];
  }
}

}  // namespace

void FillAround(const MutableImageView& image, const Rect& kept, const PixelFill& fill) {
  for (int y = 0; y < image.height; ++y) {
    uint8_t* row = image.row(y);
    if (y < kept.top || y >= kept.bottom()) {
      FillRun(row, image.width, image.channels, fill);
      continue;
    }
    FillRun(row, kept.left, image.channels, fill);
    FillRun(row + static_cast<size_t>(kept.right()) * image.channels, image.width - kept.right(),
            image.channels, fill);
  }
}

void PlaceImage(const ImageView& in, int top, int left, const PixelFill& fill,
                const MutableImageView& out) {
  const int first_row = std::clamp(top, 0, out.height);
  const int first_column = std::clamp(left, 0, out.width);
  const Rect kept = {first_row, first_column,
                     std::max(std::min(top + in.height, out.height) - first_row, 0),
                     std::max(std::min(left + in.width, out.width) - first_column, 0)};
  FillAround(out, kept, fill);
  const MutableImageView inside = out.Crop(kept);
  for (int y = 0; y < kept.height; ++y) {
    const uint8_t* from =
        in.row(kept.top - top + y) + static_cast<size_t>(kept.left - left) * in.channels;
    std::memcpy(inside.row(y), from, inside.row_bytes());
  }
}

}  // namespace bulkhead
