#include "server/image/linear_resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bulkhead {
namespace {

constexpr int kChannels = 3;
constexpr float kWeightOne = 2048.0f;
constexpr int kColumnsPerStep = 4;
// Bytes that a load takes from where two pixels begin, and bytes that a store writes beyond its
// columns, at most.
constexpr size_t kLoadBytes = 8;
constexpr size_t kSumsBehind = 16;

// Where an output pixel samples: pixels `first` and `first` + 1, and their weights. As OpenCV
// computes it: the scale in double, the place and its share in float.
struct Tap {
  int first = 0;
  int16_t first_weight = 0;
  int16_t next_weight = 0;
};

int16_t Weight(float share) { return static_cast<int16_t>(std::nearbyint(share * kWeightOne)); }

Tap TapAt(int out, int in_extent, int out_extent) {
  const double scale = 1.0 / (static_cast<double>(out_extent) / in_extent);
  const auto place = static_cast<float>((out + 0.5) * scale - 0.5);
  const float first = std::floor(place);
  const float share = place - first;
  return {static_cast<int>(first), Weight(1.0f - share), Weight(share)};
}

#if defined(__x86_64__)

// Two neighbouring pixels (r g b, r g b) to three pairs of 16 bits, and a fourth that counts for
// nothing; in each half.
__attribute__((target("avx2"))) inline __m256i PairMask() {
  return _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                          0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
}

// Sums of the neighbours of two columns, weighted, in units of 1 / 128: r g b 0 in each half.
__attribute__((target("avx2"))) inline __m256i TwoColumns(const uint8_t* low, const uint8_t* high,
                                                          const int16_t* weights, __m256i mask) {
  int64_t low_bytes;
  int64_t high_bytes;
  std::memcpy(&low_bytes, low, sizeof(low_bytes));
  std::memcpy(&high_bytes, high, sizeof(high_bytes));
  const __m256i bytes =
      _mm256_blend_epi32(_mm256_set1_epi64x(low_bytes), _mm256_set1_epi64x(high_bytes), 0xF0);
  const __m256i weight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
  return _mm256_srai_epi32(_mm256_madd_epi16(_mm256_shuffle_epi8(bytes, mask), weight), 4);
}

__attribute__((target("avx2"))) void SumRowAvx2(const uint8_t* row, const int32_t* offsets,
                                                const int16_t* weights, int columns,
                                                int16_t* sums) {
  const __m256i pairs = PairMask();
  const __m256i close = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1,  //
                                         0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1);
  for (int x = 0; x < columns; x += kColumnsPerStep) {
    const int32_t* at = offsets + x;
    const int16_t* weight = weights + static_cast<ptrdiff_t>(x) * 8;
    const __m256i first = TwoColumns(row + at[0], row + at[2], weight, pairs);
    const __m256i second = TwoColumns(row + at[1], row + at[3], weight + 16, pairs);
    const __m256i packed = _mm256_shuffle_epi8(_mm256_packs_epi32(first, second), close);
    int16_t* out = sums + static_cast<ptrdiff_t>(x) * kChannels;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(packed));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 6), _mm256_extracti128_si256(packed, 1));
  }
}

__attribute__((target("avx2"))) void MixRowsAvx2(const int16_t* upper, const int16_t* lower,
                                                 int16_t upper_weight, int16_t lower_weight,
                                                 int count, bool past_caches, uint8_t* out) {
  const __m256i wu = _mm256_set1_epi16(upper_weight);
  const __m256i wl = _mm256_set1_epi16(lower_weight);
  const __m256i two = _mm256_set1_epi16(2);
  const auto mix = [&](int i) __attribute__((target("avx2"))) {
    const __m256i u = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(upper + i));
    const __m256i l = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lower + i));
    const __m256i sum = _mm256_add_epi16(_mm256_mulhi_epi16(u, wu), _mm256_mulhi_epi16(l, wl));
    return _mm256_srai_epi16(_mm256_add_epi16(sum, two), 2);
  };
  const auto mix_two = [&](int i) __attribute__((target("avx2"))) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(mix(i), mix(i + 16)), 0xD8);
  };
  int i = 0;
  if (past_caches && reinterpret_cast<uintptr_t>(out) % sizeof(__m256i) == 0) {
    for (; i + 32 <= count; i += 32) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(out + i), mix_two(i));
    }
  }
  for (; i + 32 <= count; i += 32) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), mix_two(i));
  }
  for (; i < count; ++i) {
    const int sum = ((upper[i] * upper_weight) >> 16) + ((lower[i] * lower_weight) >> 16);
    out[i] = static_cast<uint8_t>((sum + 2) >> 2);
  }
}

// Stores past the caches are not ordered with those that tell others that the batch is ready.
void OrderStores() { _mm_sfence(); }

#else

void OrderStores() {}
void SumRowAvx2(const uint8_t*, const int32_t*, const int16_t*, int, int16_t*) {}
void MixRowsAvx2(const int16_t*, const int16_t*, int16_t, int16_t, int, bool, uint8_t*) {}

#endif

}  // namespace

bool LinearResizer::Prepare(ImageSize in, int channels, ImageSize out, Mirror mirror, Simd simd) {
  if (!UseAvx2(simd) || channels != kChannels) return false;
  if (in.height < 2 || in.width < 2 || in == out) return false;
  if (in.height == 2 * out.height && in.width == 2 * out.width) return false;
  const bool same_columns = in_.width == in.width && out_.width == out.width && mirror == mirror_;
  in_ = in;
  out_ = out;
  mirror_ = mirror;
  if (!same_columns) PlanColumns();
  return true;
}

void LinearResizer::PlanColumns() {
  const int steps = (out_.width + kColumnsPerStep - 1) / kColumnsPerStep;
  offsets_.assign(static_cast<size_t>(steps) * kColumnsPerStep, 0);
  weights_.assign(offsets_.size() * 8, 0);
  for (SourceRow& row : rows_) row.sums.resize(offsets_.size() * kChannels + kSumsBehind);
  constexpr std::array<int, kColumnsPerStep> kPlace = {0, 2, 1, 3};
  for (int x = 0; x < out_.width; ++x) {
    const int column = mirror_ == Mirror::kAfter ? out_.width - 1 - x : x;
    auto [first, left, right] = TapAt(column, in_.width, out_.width);
    // Outside the image its first or last pixel counts alone.
    if (first < 0) {
      first = 0;
      left = static_cast<int16_t>(kWeightOne);
      right = 0;
    } else if (first >= in_.width - 1) {
      first = in_.width - 2;
      left = 0;
      right = static_cast<int16_t>(kWeightOne);
    }
    if (mirror_ == Mirror::kBefore) {
      first = in_.width - 2 - first;
      std::swap(left, right);
    }
    offsets_[x] = first * kChannels;
    const int place = x / kColumnsPerStep * kColumnsPerStep + kPlace[x % kColumnsPerStep];
    for (int i = 0; i < 8; i += 2) {
      weights_[static_cast<size_t>(place) * 8 + i] = left;
      weights_[static_cast<size_t>(place) * 8 + i + 1] = right;
    }
  }
}

void LinearResizer::Begin(const ImageView& image) {
  image_ = image;
  next_row_ = 0;
  for (SourceRow& row : rows_) row.number = -1;
  // Nothing may lie behind the last row, so it is read from here.
  last_row_.resize(image.row_bytes() + kLoadBytes);
  std::memcpy(last_row_.data(), image.row(image.height - 1), image.row_bytes());
}

const int16_t* LinearResizer::SumsOf(int row) {
  SourceRow& place = rows_[row % 2];
  if (place.number != row) {
    const uint8_t* pixels = row == image_.height - 1 ? last_row_.data() : image_.row(row);
    SumRowAvx2(pixels, offsets_.data(), weights_.data(), out_.width, place.sums.data());
    place.number = row;
  }
  return place.sums.data();
}

void LinearResizer::NextRow(uint8_t* out) { WriteRow(out, false); }

void LinearResizer::Run(const ImageView& image, const MutableImageView& out) {
  Begin(image);
  for (int y = 0; y < out.height; ++y) WriteRow(out.row(y), true);
  OrderStores();
}

void LinearResizer::WriteRow(uint8_t* out, bool past_caches) {
  const Tap tap = TapAt(next_row_, in_.height, out_.height);
  ++next_row_;
  const int last = in_.height - 1;
  const int16_t* upper = SumsOf(std::clamp(tap.first, 0, last));
  const int16_t* lower = SumsOf(std::clamp(tap.first + 1, 0, last));
  MixRowsAvx2(upper, lower, tap.first_weight, tap.next_weight, out_.width * kChannels, past_caches,
              out);
}

}  // namespace bulkhead
