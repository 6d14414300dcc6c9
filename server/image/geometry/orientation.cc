#include "server/image/geometry/orientation.h"

#include <cstddef>
#include <cstring>

namespace bulkhead {
namespace {

// The upright pixel (y, x) is the stored one at (x, y) if turned, else at (y, x), counted from the
// last row or column where those are flipped.
bool IsTurned(int orientation) { return orientation >= 5; }
bool FlipsRows(int orientation) {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}
bool FlipsColumns(int orientation) {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

// Pixels that lie `step` bytes apart, to consecutive memory. kPixelBytes 0: `pixel_bytes` each.
template <int kPixelBytes>
void Gather(const uint8_t* from, std::ptrdiff_t step, int count, size_t pixel_bytes, uint8_t* out) {
  const size_t bytes = kPixelBytes == 0 ? pixel_bytes : kPixelBytes;
  for (int x = 0; x < count; ++x, from += step, out += bytes) std::memcpy(out, from, bytes);
}

}  // namespace

ImageSize UprightSize(ImageSize stored, int orientation) {
  return IsTurned(orientation) ? ImageSize{stored.width, stored.height} : stored;
}

Rect StoredRect(const Rect& upright, ImageSize stored, int orientation) {
  Rect rect = upright;
  if (IsTurned(orientation)) rect = {upright.left, upright.top, upright.width, upright.height};
  if (FlipsRows(orientation)) rect.top = stored.height - rect.bottom();
  if (FlipsColumns(orientation)) rect.left = stored.width - rect.right();
  return rect;
}

void CopyUpright(const ImageView& in, int orientation, const MutableImageView& out) {
  const auto down = static_cast<std::ptrdiff_t>(in.stride);
  const std::ptrdiff_t across = in.channels;
  const std::ptrdiff_t row_step = FlipsRows(orientation) ? -down : down;
  const std::ptrdiff_t column_step = FlipsColumns(orientation) ? -across : across;
  const uint8_t* first = in.data;
  if (FlipsRows(orientation)) first += down * (in.height - 1);
  if (FlipsColumns(orientation)) first += across * (in.width - 1);
  const std::ptrdiff_t step_y = IsTurned(orientation) ? column_step : row_step;
  const std::ptrdiff_t step_x = IsTurned(orientation) ? row_step : column_step;
  const auto gather = in.channels == 1   ? &Gather<1>
                      : in.channels == 3 ? &Gather<3>
                      : in.channels == 4 ? &Gather<4>
                                         : &Gather<0>;
  for (int y = 0; y < out.height; ++y) {
    gather(first + step_y * y, step_x, out.width, static_cast<size_t>(in.channels), out.row(y));
  }
}

}  // namespace bulkhead
