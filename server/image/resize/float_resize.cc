#include "server/image/resize/float_resize.h"

#include <cmath>

namespace bulkhead {

FloatResizer::Tap FloatResizer::TapAt(int out, int in_extent, int out_extent) {
  const double scale = 1.0 / (static_cast<double>(out_extent) / in_extent);
  const auto place = static_cast<float>((out + 0.5) * scale - 0.5);
  const float first = std::floor(place);
  // Outside the image its first or last pixel counts alone.
  if (first < 0) return {0, 0, 0};
  const int last = in_extent - 1;
  if (first >= static_cast<float>(last)) return {last, last, 0};
  return {static_cast<int>(first), static_cast<int>(first) + 1, place - first};
}

void FloatResizer::Prepare(ImageSize in, size_t channels, ImageSize out) {
  in_ = in;
  out_ = out;
  channels_ = channels;
  columns_.clear();
  for (int x = 0; x < out.width; ++x) columns_.push_back(TapAt(x, in.width, out.width));
  for (SourceRow& row : rows_) row.sums.resize(static_cast<size_t>(out.width) * channels);
}

const float* FloatResizer::SumsOf(const float* image, int row) {
  SourceRow& place = rows_[row % 2];
  if (place.number == row) return place.sums.data();
  const float* const pixels = image + static_cast<size_t>(row) * in_.width * channels_;
  float* sum = place.sums.data();
  for (const Tap& tap : columns_) {
    const float* const left = pixels + static_cast<size_t>(tap.first) * channels_;
    const float* const right = pixels + static_cast<size_t>(tap.next) * channels_;
    const float share = tap.share;
    const float rest = 1.0f - share;
    for (size_t c = 0; c < channels_; ++c) *sum++ = left[c] * rest + right[c] * share;
  }
  place.number = row;
  return place.sums.data();
}

void FloatResizer::Run(const float* image, float* out) {
  for (SourceRow& row : rows_) row.number = -1;
  const size_t row_floats = static_cast<size_t>(out_.width) * channels_;
  for (int y = 0; y < out_.height; ++y) {
    const Tap tap = TapAt(y, in_.height, out_.height);
    const float* const upper = SumsOf(image, tap.first);
    const float* const lower = SumsOf(image, tap.next);
    const float share = tap.share;
    const float rest = 1.0f - share;
    float* const to = out + static_cast<size_t>(y) * row_floats;
    for (size_t i = 0; i < row_floats; ++i) to[i] = upper[i] * rest + lower[i] * share;
  }
}

}  // namespace bulkhead
