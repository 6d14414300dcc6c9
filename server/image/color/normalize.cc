#include "server/image/color/normalize.h"

#include <algorithm>
#include <cstring>
#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "server/image/simd_target.h"

namespace bulkhead {
namespace {

#if defined(__x86_64__)
#define BULKHEAD_FOR_AVX2 __attribute__((target(BULKHEAD_AVX2)))
constexpr int kChannelsPerStep = 4;
constexpr int kPixelsPerStep = 8;

// Four bytes of each of eight pixels, which are `pixel_bytes` apart → eight first bytes, eight
// second ones, and so on. Reads up to four bytes behind the eight pixels.
BULKHEAD_FOR_AVX2 inline __m256i FourChannelsOfEight(const uint8_t* pixels, size_t pixel_bytes) {
  __m256i halves;  // of four pixels each
  if (pixel_bytes == 3) {
    halves = _mm256_shuffle_epi8(
        _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(pixels + 12),
                            reinterpret_cast<const __m128i*>(pixels)),
        _mm256_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1,  //
                         0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
  } else {
    const auto four = [&](int i) {
      int bytes;
      std::memcpy(&bytes, pixels + i * pixel_bytes, sizeof(bytes));
      return bytes;
    };
    halves = _mm256_shuffle_epi8(
        _mm256_setr_epi32(four(0), four(1), four(2), four(3), four(4), four(5), four(6), four(7)),
        _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                         0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  }
  return _mm256_permutevar8x32_epi32(halves, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Calls `store(c, eight, to)` for each eight bytes of channel `c`, which belong to `to` in a row of
// that channel's plane; the planes are `plane` numbers apart. Returns the pixels done; the rest, at
// the row's end, are fewer than eleven.
template <typename Number, typename Store>
BULKHEAD_FOR_AVX2 int RowToPlanes(const ImageView& row, size_t plane, Number* out, Store store) {
  const int channels = row.channels;
  // What is read behind small pixels is theirs that follow.
  const int behind = channels < kChannelsPerStep ? 3 : 0;
  const int done = (row.width - behind) / kPixelsPerStep * kPixelsPerStep;
  for (int c = 0; c < channels; c += kChannelsPerStep) {
    // If fewer are left, the last four channels, so that nothing behind a large pixel is read.
    const int first = std::max(0, std::min(c, channels - kChannelsPerStep));
    const int end = std::min(c + kChannelsPerStep, channels);
    for (int x = 0; x < done; x += kPixelsPerStep) {
      alignas(32) uint8_t bytes[kChannelsPerStep * kPixelsPerStep];
      _mm256_store_si256(
          reinterpret_cast<__m256i*>(bytes),
          FourChannelsOfEight(row.data + static_cast<size_t>(x) * channels + first, channels));
      for (int k = c; k < end; ++k) {
        store(k, bytes + (k - first) * kPixelsPerStep, out + k * plane + x);
      }
    }
  }
  return done;
}

// Eight bytes, normalized. Divisions and differences of AVX2 are IEEE's, as the scalar ones are.
BULKHEAD_FOR_AVX2 inline void NormalizeEight(const uint8_t* eight, Normalizer::Formula formula,
                                             __m256 first, __m256 second, float* out) {
  const __m256 values = _mm256_cvtepi32_ps(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(eight))));
  _mm256_storeu_ps(out, formula == Normalizer::Formula::kMeanStd
                            ? _mm256_div_ps(_mm256_sub_ps(values, first), second)
                            : _mm256_sub_ps(_mm256_div_ps(values, first), second));
}

// The first `count` bytes of a row, a multiple of eight; the constants of value i are those at
// i modulo `constants`, a multiple of eight, too.
BULKHEAD_FOR_AVX2 void NormalizeRow(const uint8_t* row, size_t count, Normalizer::Formula formula,
                                    const float* firsts, const float* seconds, size_t constants,
                                    float* out) {
  size_t at = 0;
  for (size_t i = 0; i < count; i += 8) {
    NormalizeEight(row + i, formula, _mm256_loadu_ps(firsts + at), _mm256_loadu_ps(seconds + at),
                   out + i);
    at += 8;
    if (at == constants) at = 0;
  }
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
  for (int i = 0; i < 8; ++i) {
    for (const Channel& channel : channels_) {
      firsts_.push_back(channel.first);
      seconds_.push_back(channel.second);
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
    const size_t count = row.row_bytes();
    float* const to = out + y * count;
    size_t done = 0;
#if defined(__x86_64__)
    if (UseAvx2(simd)) {
      done = count / 8 * 8;
      NormalizeRow(row.data, done, formula_, firsts_.data(), seconds_.data(), firsts_.size(), to);
    }
#endif
    for (size_t i = done; i < count; ++i) {
      to[i] = table_of(static_cast<int>(i % row.channels))[row.data[i]];
    }
    return;
  }
  const size_t plane = static_cast<size_t>(height) * row.width;
  float* const first = out + static_cast<size_t>(y) * row.width;
  int done = 0;
#if defined(__x86_64__)
  if (UseAvx2(simd)) {
    const auto store = [constants = channels_.data(), step = channels_.size() == 1 ? 0 : 1,
                        formula = formula_](int c, const uint8_t* eight, float* to)
                           BULKHEAD_FOR_AVX2 {
                             const Channel& channel = constants[c * step];
                             NormalizeEight(eight, formula, _mm256_set1_ps(channel.first),
                                            _mm256_set1_ps(channel.second), to);
                           };
    done = RowToPlanes(row, plane, first, store);
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

void CopyChannelsFirst(const ImageView& in, uint8_t* out, Simd simd) {
  const size_t plane = static_cast<size_t>(in.height) * in.width;
  for (int y = 0; y < in.height; ++y, out += in.width) {
    int done = 0;
#if defined(__x86_64__)
    if (UseAvx2(simd)) {
      done = RowToPlanes(in.Crop({y, 0, 1, in.width}), plane, out,
                         [](int, const uint8_t* eight, uint8_t* to) { std::memcpy(to, eight, 8); });
    }
#endif
    for (int c = 0; c < in.channels; ++c) {
      const uint8_t* from = in.row(y) + c;
      uint8_t* to = out + c * plane;
      for (int x = done; x < in.width; ++x) to[x] = from[static_cast<size_t>(x) * in.channels];
    }
  }
}

}  // namespace bulkhead
