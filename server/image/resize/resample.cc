#include "server/image/resize/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace bulkhead {
namespace {

// The weights' fraction: what a byte and a sign leave of 32 bits, less one for a sum above 255.
constexpr int kFractionBits = 22;
constexpr int32_t kHalf = 1 << (kFractionBits - 1);

double Linear(double x) {
  x = std::abs(x);
  return x < 1 ? 1 - x : 0;
}

// Keys' cubic with a = −0.5, each polynomial in Pillow's order of operations.
double Cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

// For each output pixel of one direction: which input pixels it takes, and how much of each.
struct Taps {
  int per_pixel;           // room for weights
  const int32_t* first;    // [out] first input pixel
  const int32_t* count;    // [out] how many
  const int32_t* weights;  // [out][per_pixel]
};

Taps ComputeTaps(int in, int out, ResampleFilter filter, ScratchBuffer& memory) {
  const double scale = static_cast<double>(in) / out;
  const double stretch = std::max(scale, 1.0);
  const double support = (filter == ResampleFilter::kLinear ? 1.0 : 2.0) * stretch;
  const int per_pixel = static_cast<int>(std::ceil(support)) * 2 + 1;
  // One row of exact weights stands behind the whole ones.
  const size_t whole_bytes = (size_t{2} + per_pixel) * out * sizeof(int32_t);
  const size_t exact_at = (whole_bytes + 63) / 64 * 64;
  uint8_t* bytes = memory.Resize(exact_at + per_pixel * sizeof(double));
  auto* first = reinterpret_cast<int32_t*>(bytes);
  int32_t* count = first + out;
  int32_t* weights = count + out;
  auto* exact = reinterpret_cast<double*>(bytes + exact_at);
  const double shrink = 1.0 / stretch;
  for (int i = 0; i < out; ++i) {
    const double center = (i + 0.5) * scale;
    const int begin = std::max(static_cast<int>(center - support + 0.5), 0);
    const int end = std::min(static_cast<int>(center + support + 0.5), in);
    double sum = 0;
    for (int k = begin; k < end; ++k) {
      const double x = (k - center + 0.5) * shrink;
      exact[k - begin] = filter == ResampleFilter::kLinear ? Linear(x) : Cubic(x);
      sum += exact[k - begin];
    }
    int32_t* whole = weights + static_cast<size_t>(i) * per_pixel;
    for (int k = 0; k < end - begin; ++k) {
      const double weight = (sum != 0 ? exact[k] / sum : exact[k]) * (1 << kFractionBits);
      whole[k] = static_cast<int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
    first[i] = begin;
    count[i] = end - begin;
  }
  return {per_pixel, first, count, weights};
}

uint8_t ToByte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

template <int kChannels>
void FilterRow(const uint8_t* in, int channels_at_run_time, const Taps& taps, int width,
               uint8_t* out) {
  const int channels = kChannels > 0 ? kChannels : channels_at_run_time;
  for (int x = 0; x < width; ++x, out += channels) {
    const uint8_t* pixels = in + static_cast<size_t>(taps.first[x]) * channels;
    const int32_t* weights = taps.weights + static_cast<size_t>(x) * taps.per_pixel;
    for (int c = 0; c < channels; ++c) {
      int32_t sum = kHalf;
      for (int k = 0; k < taps.count[x]; ++k) sum += pixels[k * channels + c] * weights[k];
      out[c] = ToByte(sum);
    }
  }
}

using FilterRowFn = void (*)(const uint8_t* in, int channels, const Taps& taps, int width,
                             uint8_t* out);

FilterRowFn FilterRowFor(int channels) {
  return channels == 1   ? &FilterRow<1>
         : channels == 3 ? &FilterRow<3>
         : channels == 4 ? &FilterRow<4>
                         : &FilterRow<0>;
}

// One row of the result: the taps of row `y` over the rows that `row_of` gives.
template <typename RowOf>
void FilterColumns(const Taps& taps, int y, const RowOf& row_of, size_t row_bytes, int32_t* sums,
                   uint8_t* out) {
  std::fill(sums, sums + row_bytes, kHalf);
  for (int k = 0; k < taps.count[y]; ++k) {
    const int32_t weight = taps.weights[static_cast<size_t>(y) * taps.per_pixel + k];
    const uint8_t* row = row_of(taps.first[y] + k);
    for (size_t i = 0; i < row_bytes; ++i) sums[i] += row[i] * weight;
  }
  for (size_t i = 0; i < row_bytes; ++i) out[i] = ToByte(sums[i]);
}

// Both passes at once: filtered rows are kept for as long as a row of the result looks at them.
void FilterBoth(const ImageView& in, const Taps& across, const Taps& down, ResampleScratch& scratch,
                const MutableImageView& out) {
  const FilterRowFn filter_row = FilterRowFor(in.channels);
  const size_t row_bytes = out.row_bytes();
  auto* sums = reinterpret_cast<int32_t*>(scratch.sums.Resize(row_bytes * sizeof(int32_t)));
  const int kept = *std::max_element(down.count, down.count + out.height);
  const MutableImageView rows = scratch.rows.Reshape({kept, out.width}, in.channels);
  int next = 0;  // first row that is not filtered yet
  for (int y = 0; y < out.height; ++y) {
    for (; next < down.first[y] + down.count[y]; ++next) {
      filter_row(in.row(next), in.channels, across, out.width, rows.row(next % kept));
    }
    FilterColumns(
        down, y, [&](int row) { return rows.row(row % kept); }, row_bytes, sums, out.row(y));
  }
}

}  // namespace

void ResampleImage(const ImageView& in, ResampleFilter filter, const MutableImageView& out,
                   ResampleScratch& scratch) {
  if (in.size() == out.size()) {
    for (int y = 0; y < in.height; ++y) std::memcpy(out.row(y), in.row(y), in.row_bytes());
    return;
  }
  Taps across{};
  Taps down{};
  if (in.width != out.width) across = ComputeTaps(in.width, out.width, filter, scratch.across);
  if (in.height != out.height) down = ComputeTaps(in.height, out.height, filter, scratch.down);
  if (in.width != out.width && in.height != out.height) {
    return FilterBoth(in, across, down, scratch, out);
  }
  if (in.height == out.height) {
    const FilterRowFn filter_row = FilterRowFor(in.channels);
    for (int y = 0; y < in.height; ++y) {
      filter_row(in.row(y), in.channels, across, out.width, out.row(y));
    }
    return;
  }
  const size_t row_bytes = out.row_bytes();
  auto* sums = reinterpret_cast<int32_t*>(scratch.sums.Resize(row_bytes * sizeof(int32_t)));
  for (int y = 0; y < out.height; ++y) {
    FilterColumns(
        down, y, [&](int row) { return in.row(row); }, row_bytes, sums, out.row(y));
  }
}

}  // namespace bulkhead
