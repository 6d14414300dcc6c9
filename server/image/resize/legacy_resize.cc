#include "server/image/resize/legacy_resize.h"

#include <algorithm>
#include <cmath>

namespace bulkhead {
namespace {

float ScaleOf(int in, int out, LegacyCenters centers) {
  if (centers == LegacyCenters::kAligned && out > 1) {
    return static_cast<float>(in - 1) / static_cast<float>(out - 1);
  }
  return static_cast<float>(in) / static_cast<float>(out);
}

// Two neighbouring pixels of the input and how far the position lies from the first to the second.
struct Position {
  int lower;
  int upper;
  float share;
};

Position PositionOf(int i, float scale, int in) {
  const float exact = static_cast<float>(i) * scale;
  const float below = std::floor(exact);
  const int lower = std::min(static_cast<int>(below), in - 1);
  return {lower, std::min(static_cast<int>(std::ceil(exact)), in - 1), exact - below};
}

int NearestTo(int i, float scale, int in, LegacyCenters centers) {
  const float exact = static_cast<float>(i) * scale;
  const float whole = centers == LegacyCenters::kAligned ? std::round(exact) : std::floor(exact);
  return std::min(static_cast<int>(whole), in - 1);
}

// Between a and b, in this order of operations.
float Between(float a, float b, float share) { return a + (b - a) * share; }

}  // namespace

void LegacyResizeLinear(const ImageView& in, LegacyCenters centers, const MutableImageView& out,
                        ScratchBuffer& columns) {
  auto* positions = reinterpret_cast<Position*>(columns.Resize(out.width * sizeof(Position)));
  const float across = ScaleOf(in.width, out.width, centers);
  for (int x = 0; x < out.width; ++x) positions[x] = PositionOf(x, across, in.width);
  const float down = ScaleOf(in.height, out.height, centers);
  const int channels = in.channels;
  for (int y = 0; y < out.height; ++y) {
    const Position row = PositionOf(y, down, in.height);
    const uint8_t* upper_row = in.row(row.lower);
    const uint8_t* lower_row = in.row(row.upper);
    uint8_t* to = out.row(y);
    for (int x = 0; x < out.width; ++x) {
      const size_t left = static_cast<size_t>(positions[x].lower) * channels;
      const size_t right = static_cast<size_t>(positions[x].upper) * channels;
      const float share = positions[x].share;
      for (int c = 0; c < channels; ++c) {
        const float top = Between(upper_row[left + c], upper_row[right + c], share);
        const float bottom = Between(lower_row[left + c], lower_row[right + c], share);
        // The rounding mode is never changed: halves to even.
        *to++ = static_cast<uint8_t>(std::rint(Between(top, bottom, row.share)));
      }
    }
  }
}

void LegacyResizeNearest(const ImageView& in, LegacyCenters centers, const MutableImageView& out,
                         ScratchBuffer& columns) {
  auto* nearest = reinterpret_cast<int*>(columns.Resize(out.width * sizeof(int)));
  const float across = ScaleOf(in.width, out.width, centers);
  for (int x = 0; x < out.width; ++x) nearest[x] = NearestTo(x, across, in.width, centers);
  const float down = ScaleOf(in.height, out.height, centers);
  const int channels = in.channels;
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* from = in.row(NearestTo(y, down, in.height, centers));
    uint8_t* to = out.row(y);
    for (int x = 0; x < out.width; ++x) {
      const uint8_t* pixel = from + static_cast<size_t>(nearest[x]) * channels;
      for (int c = 0; c < channels; ++c) *to++ = pixel[c];
    }
  }
}

}  // namespace bulkhead
