#include "server/image/resize/linear_resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bulkhead {
namespace {

constexpr float kWeightOne = 2048.0f;
// That kernels may read behind the copy of the last row.
constexpr size_t kRoomBehind = 64;
static_assert(kRoomBehind >= LinearColumnsAvx2::kLoadBytes);

int16_t Weight(float share) { return static_cast<int16_t>(std::nearbyint(share * kWeightOne)); }

// As OpenCV computes it: the scale in double, the place and its share in float.
LinearTap TapAt(int out, int in_extent, int out_extent) {
  const double scale = 1.0 / (static_cast<double>(out_extent) / in_extent);
  const auto place = static_cast<float>((out + 0.5) * scale - 0.5);
  const float first = std::floor(place);
  const float share = place - first;
  return {static_cast<int>(first), Weight(1.0f - share), Weight(share)};
}

// Stores past the caches are not ordered with those that tell others that the batch is ready.
void OrderStores() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace

bool LinearResizer::Prepare(ImageSize in, int channels, ImageSize out, Mirror mirror, Simd simd) {
  if (!UseAvx2(simd) || channels != kLinearChannels) return false;
  if (in.height < 2 || in.width < 2 || in == out) return false;
  if (in.height == 2 * out.height && in.width == 2 * out.width) return false;
  const bool same_columns =
      in_.width == in.width && out_.width == out.width && mirror == mirror_ && simd == simd_;
  in_ = in;
  out_ = out;
  mirror_ = mirror;
  simd_ = simd;
  if (!same_columns) PlanColumns();
  return true;
}

void LinearResizer::PlanColumns() {
  taps_.resize(out_.width);
  for (int x = 0; x < out_.width; ++x) {
    const int column = mirror_ == Mirror::kAfter ? out_.width - 1 - x : x;
    LinearTap& tap = taps_[x];
    tap = TapAt(column, in_.width, out_.width);
    // Outside the image its first or last pixel counts alone.
    if (tap.first < 0) {
      tap = {0, static_cast<int16_t>(kWeightOne), 0};
    } else if (tap.first >= in_.width - 1) {
      tap = {in_.width - 2, 0, static_cast<int16_t>(kWeightOne)};
    }
    if (mirror_ == Mirror::kBefore) {
      tap.first = in_.width - 2 - tap.first;
      std::swap(tap.first_weight, tap.next_weight);
    }
  }
  wide_ = UseAvx512(simd_) && columns_avx512_.Plan(taps_);
  if (!wide_) columns_avx2_.Plan(taps_);
  const size_t size = wide_ ? columns_avx512_.sums_size() : columns_avx2_.sums_size();
  for (SourceRow& row : rows_) {
    row.sums = reinterpret_cast<int16_t*>(row.memory.Resize(size * sizeof(int16_t)));
  }
}

void LinearResizer::Begin(const ImageView& image) {
  image_ = image;
  next_row_ = 0;
  for (SourceRow& row : rows_) row.number = -1;
  // Nothing may lie behind the last row, so it is read from here.
  last_row_.resize(image.row_bytes() + kRoomBehind);
  std::memcpy(last_row_.data(), image.row(image.height - 1), image.row_bytes());
}

const int16_t* LinearResizer::SumsOf(int row) {
  SourceRow& place = rows_[row % 2];
  if (place.number != row) {
    const bool last = row == image_.height - 1;
    const uint8_t* pixels = last ? last_row_.data() : image_.row(row);
    if (wide_) {
      const size_t behind = last ? kRoomBehind : (image_.height - 1 - row) * image_.stride;
      columns_avx512_.Sum(pixels, behind, place.sums);
    } else {
      columns_avx2_.Sum(pixels, place.sums);
    }
    place.number = row;
  }
  return place.sums;
}

void LinearResizer::NextRow(uint8_t* out) { WriteRow(out, false); }

void LinearResizer::Run(const ImageView& image, const MutableImageView& out, bool past_caches) {
  Begin(image);
  for (int y = 0; y < out.height; ++y) WriteRow(out.row(y), past_caches);
  if (past_caches) OrderStores();
}

void LinearResizer::WriteRow(uint8_t* out, bool past_caches) {
  const LinearTap tap = TapAt(next_row_, in_.height, out_.height);
  ++next_row_;
  const int last = in_.height - 1;
  RowMix rows;
  rows.upper = SumsOf(std::clamp(tap.first, 0, last));
  rows.lower = SumsOf(std::clamp(tap.first + 1, 0, last));
  rows.upper_weight = tap.first_weight;
  rows.lower_weight = tap.next_weight;
  rows.count = out_.width * kLinearChannels;
  rows.past_caches = past_caches;
  (wide_ ? MixRowsAvx512 : MixRowsAvx2)(rows, out);
}

}  // namespace bulkhead
