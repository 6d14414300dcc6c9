#include "server/image/color/normalize.h"

#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bulkhead {
namespace {

#if defined(__x86_64__)
// The bytes at 0, 3, 6, … 21 behind `channel` of 24 interleaved RGB bytes, as eight floats.
// Reads `pixels` to `pixels` + 32.
__attribute__((target("avx2"))) inline __m256 LoadChannelOfEight(const uint8_t* pixels,
                                                                 int channel) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels + channel));
  const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels + channel + 12));
  const __m128i first_four =
      _mm_setr_epi8(0, 3, 6, 9, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i next_four =
      _mm_setr_epi8(-1, -1, -1, -1, 0, 3, 6, 9, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i eight =
      _mm_or_si128(_mm_shuffle_epi8(low, first_four), _mm_shuffle_epi8(high, next_four));
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight));
}

// One row of RGB → three rows of floats, eight pixels a step. Divisions and differences of AVX2 are
// IEEE's, as the scalar ones are. Returns the pixels done.
__attribute__((target("avx2"))) int RgbRowToPlanesAvx2(const uint8_t* in, int width,
                                                       bool divide_first,
                                                       const Normalizer::Channel channels[3],
                                                       float* const planes[3]) {
  int x = 0;
  // A step reads 30 bytes: up to the ten pixels from x on.
  for (; x + 10 <= width; x += 8) {
    for (int c = 0; c < 3; ++c) {
      const __m256 values = LoadChannelOfEight(in + static_cast<size_t>(x) * 3, c);
      const __m256 first = _mm256_set1_ps(channels[c].first);
      const __m256 second = _mm256_set1_ps(channels[c].second);
      const __m256 result = divide_first ? _mm256_sub_ps(_mm256_div_ps(values, first), second)
                                         : _mm256_div_ps(_mm256_sub_ps(values, first), second);
      _mm256_storeu_ps(planes[c] + x, result);
    }
  }
  return x;
}
#endif

}  // namespace

Normalizer::Normalizer(Formula formula, std::vector<Channel> channels)
    : formula_(formula), channels_(std::move(channels)), tables_(channels_.size()) {
  for (size_t c = 0; c < channels_.size(); ++c) {
    for (int value = 0; value < 256; ++value) {
      tables_[c][value] = Apply(c, static_cast<float>(value));
    }
  }
}

float Normalizer::Apply(size_t c, float x) const {
  const Channel& channel = channels_[c];
  return formula_ == Formula::kMeanStd ? (x - channel.first) / channel.second
                                       : x / channel.first - channel.second;
}

void Normalizer::ApplyToImage(const ImageView& in, bool channels_first, float* out,
                              Simd simd) const {
  for (int y = 0; y < in.height; ++y) {
    const ImageView row = in.Crop({y, 0, 1, in.width});
    ApplyToRow(row, y, in.height, channels_first, out, simd);
  }
}

void Normalizer::ApplyToRow(const ImageView& row, int y, int height, bool channels_first,
                            float* out, Simd simd) const {
  const auto table_of = [this](int c) { return tables_[channels_.size() == 1 ? 0 : c].data(); };
  if (!channels_first) {
    const uint8_t* from = row.data;
    float* to = out + y * row.row_bytes();
    for (int x = 0; x < row.width; ++x) {
      for (int c = 0; c < row.channels; ++c) *to++ = table_of(c)[*from++];
    }
    return;
  }
  const size_t plane = static_cast<size_t>(height) * row.width;
  float* const first = out + static_cast<size_t>(y) * row.width;
  int done = 0;
#if defined(__x86_64__)
  if (row.channels == 3 && UseAvx2(simd)) {
    const size_t step = channels_.size() == 1 ? 0 : 1;
    const Channel channels[3] = {channels_[0], channels_[step], channels_[2 * step]};
    float* const planes[3] = {first, first + plane, first + 2 * plane};
    done = RgbRowToPlanesAvx2(row.data, row.width, formula_ == Formula::kDivideSubtract, channels,
                              planes);
  }
#endif
  for (int c = 0; c < row.channels; ++c) {
    const float* table = table_of(c);
    const uint8_t* from = row.data + c;
    float* to = first + c * plane;
    for (int x = done; x < row.width; ++x)
      to[x] = table[from[static_cast<size_t>(x) * row.channels]];
  }
}

void Normalizer::ApplyInPlace(float* values, size_t count, size_t inner) const {
  size_t c = 0;
  for (size_t i = 0; i < count;) {
    for (size_t k = 0; k < inner && i < count; ++k, ++i) values[i] = Apply(c, values[i]);
    if (++c == channels_.size()) c = 0;
  }
}

void CopyChannelsFirst(const ImageView& in, uint8_t* out) {
  const size_t plane = static_cast<size_t>(in.height) * in.width;
  for (int y = 0; y < in.height; ++y) {
    for (int c = 0; c < in.channels; ++c) {
      const uint8_t* from = in.row(y) + c;
      uint8_t* to = out + c * plane + static_cast<size_t>(y) * in.width;
      for (int x = 0; x < in.width; ++x) to[x] = from[static_cast<size_t>(x) * in.channels];
    }
  }
}

}  // namespace bulkhead
