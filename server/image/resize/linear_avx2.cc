#include "server/image/resize/linear_avx2.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "server/image/simd_target.h"

namespace bulkhead {
namespace {

constexpr int kColumnsPerStep = 4;
// Numbers that the last store of a step writes beyond its columns.
constexpr size_t kSumsBehind = 16;

}  // namespace

void LinearColumnsAvx2::Plan(const std::vector<LinearTap>& taps) {
  const size_t steps = (taps.size() + kColumnsPerStep - 1) / kColumnsPerStep;
  offsets_.assign(steps * kColumnsPerStep, 0);
  weights_.assign(offsets_.size() * 8, 0);
  sums_size_ = offsets_.size() * kLinearChannels + kSumsBehind;
  constexpr std::array<size_t, kColumnsPerStep> kPlace = {0, 2, 1, 3};
  for (size_t x = 0; x < taps.size(); ++x) {
    offsets_[x] = taps[x].first * kLinearChannels;
    const size_t place = x / kColumnsPerStep * kColumnsPerStep + kPlace[x % kColumnsPerStep];
    for (size_t i = 0; i < 8; i += 2) {
      weights_[place * 8 + i] = taps[x].first_weight;
      weights_[place * 8 + i + 1] = taps[x].next_weight;
    }
  }
}

#if defined(__x86_64__)
#define BULKHEAD_FOR_AVX2 __attribute__((target(BULKHEAD_AVX2)))
namespace {

// Two neighbouring pixels (r g b, r g b) to three pairs of 16 bits, and a fourth that counts for
// nothing; in each half.
BULKHEAD_FOR_AVX2 inline __m256i PairMask() {
  return _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                          0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
}

// Sums of the neighbours of two columns: r g b 0 in each half.
BULKHEAD_FOR_AVX2 inline __m256i TwoColumns(const uint8_t* low, const uint8_t* high,
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

// 16 numbers of the result, in 16 bits each, from `i` on.
BULKHEAD_FOR_AVX2 inline __m256i Mix16(const RowMix& rows, int i) {
  const __m256i u = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows.upper + i));
  const __m256i l = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows.lower + i));
  const __m256i sum = _mm256_add_epi16(_mm256_mulhi_epi16(u, _mm256_set1_epi16(rows.upper_weight)),
                                       _mm256_mulhi_epi16(l, _mm256_set1_epi16(rows.lower_weight)));
  return _mm256_srai_epi16(_mm256_add_epi16(sum, _mm256_set1_epi16(2)), 2);
}

BULKHEAD_FOR_AVX2 inline __m256i Mix32(const RowMix& rows, int i) {
  return _mm256_permute4x64_epi64(_mm256_packus_epi16(Mix16(rows, i), Mix16(rows, i + 16)), 0xD8);
}

}  // namespace

BULKHEAD_FOR_AVX2 void LinearColumnsAvx2::Sum(const uint8_t* row, int16_t* sums) const {
  const __m256i pairs = PairMask();
  const __m256i close = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1,  //
                                         0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1);
  const size_t columns = offsets_.size();
  const int32_t* at = offsets_.data();
  const int16_t* weight = weights_.data();
  for (size_t x = 0; x < columns; x += kColumnsPerStep, at += kColumnsPerStep, weight += 32) {
    const __m256i first = TwoColumns(row + at[0], row + at[2], weight, pairs);
    const __m256i second = TwoColumns(row + at[1], row + at[3], weight + 16, pairs);
    const __m256i packed = _mm256_shuffle_epi8(_mm256_packs_epi32(first, second), close);
    int16_t* out = sums + x * kLinearChannels;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(packed));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 6), _mm256_extracti128_si256(packed, 1));
  }
}

BULKHEAD_FOR_AVX2 void MixRowsAvx2(const RowMix& rows, uint8_t* out) {
  int i = 0;
  if (rows.past_caches && reinterpret_cast<uintptr_t>(out) % sizeof(__m256i) == 0) {
    for (; i + 32 <= rows.count; i += 32) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(out + i), Mix32(rows, i));
    }
  }
  for (; i + 32 <= rows.count; i += 32) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), Mix32(rows, i));
  }
  for (; i < rows.count; ++i) out[i] = rows.At(i);
}

#else

void LinearColumnsAvx2::Sum(const uint8_t*, int16_t*) const {}
void MixRowsAvx2(const RowMix&, uint8_t*) {}

#endif

}  // namespace bulkhead
