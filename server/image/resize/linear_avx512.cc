#include "server/image/resize/linear_avx512.h"

// GCC 12 finds in its own header what is left undefined there on purpose.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "server/image/simd_target.h"

namespace bulkhead {
namespace {

constexpr int kLoadBytes = 64;
constexpr int kPixelsOfTap = 2;

}  // namespace

bool LinearColumnsAvx512::Plan(const std::vector<LinearTap>& taps) {
  const size_t numbers = taps.size() * kLinearChannels;
  steps_.resize((numbers + kStep - 1) / kStep);
  size_t begin = 0;
  for (Step& step : steps_) {
    const size_t count = std::min(kStep, numbers - begin);
    const LinearTap* tap = &taps[begin / kLinearChannels];
    uint32_t channel = begin % kLinearChannels;
    // Taps go one way, to the right or, mirrored, to the left.
    const int at_last = taps[(begin + count - 1) / kLinearChannels].first;
    step.offset = std::min(tap->first, at_last) * kLinearChannels;
    const int bytes =
        (std::max(tap->first, at_last) + kPixelsOfTap) * kLinearChannels - step.offset;
    if (bytes > kLoadBytes) return false;
    step.bytes = ~uint64_t{0} >> (kLoadBytes - bytes);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t place = tap->first * kLinearChannels - step.offset + channel;
      step.places[i] = place | (place + kLinearChannels) << 16;
      std::memcpy(&step.weights[i], &tap->first_weight, sizeof(step.weights[i]));
      if (++channel < kLinearChannels) continue;
      channel = 0;
      ++tap;
    }
    for (size_t i = count; i < kStep; ++i) step.places[i] = step.weights[i] = 0;
    begin += count;
  }
  return true;
}

#if defined(__x86_64__)
#define BULKHEAD_FOR_AVX512 __attribute__((target(BULKHEAD_AVX512)))
namespace {

// 32 numbers of the result, in 16 bits each, from `i` on.
BULKHEAD_FOR_AVX512 inline __m512i Mix32(const RowMix& rows, int i) {
  const __m512i u = _mm512_loadu_si512(rows.upper + i);
  const __m512i l = _mm512_loadu_si512(rows.lower + i);
  const __m512i sum = _mm512_add_epi16(_mm512_mulhi_epi16(u, _mm512_set1_epi16(rows.upper_weight)),
                                       _mm512_mulhi_epi16(l, _mm512_set1_epi16(rows.lower_weight)));
  return _mm512_srai_epi16(_mm512_add_epi16(sum, _mm512_set1_epi16(2)), 2);
}

// The numbers lie between 0 and 255, so that cutting them to 8 bits is all there is to do.
BULKHEAD_FOR_AVX512 inline __m256i Mix32ToBytes(const RowMix& rows, int i) {
  return _mm512_cvtepi16_epi8(Mix32(rows, i));
}

BULKHEAD_FOR_AVX512 inline __m512i Mix64(const RowMix& rows, int i) {
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  return _mm512_permutexvar_epi64(order, _mm512_packus_epi16(Mix32(rows, i), Mix32(rows, i + 32)));
}

}  // namespace

template <bool kMasked>
BULKHEAD_FOR_AVX512 void LinearColumnsAvx512::SumSteps(const uint8_t* row, int16_t* sums) const {
  constexpr __mmask64 kLowHalves = 0x5555'5555'5555'5555;
  for (const Step& step : steps_) {
    const uint8_t* const from = row + step.offset;
    const __m512i bytes =
        kMasked ? _mm512_maskz_loadu_epi8(step.bytes, from) : _mm512_loadu_si512(from);
    const __m512i pairs =
        _mm512_maskz_permutexvar_epi8(kLowHalves, _mm512_load_si512(step.places), bytes);
    const __m512i sum = _mm512_madd_epi16(pairs, _mm512_load_si512(step.weights));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums),
                        _mm512_cvtepi32_epi16(_mm512_srai_epi32(sum, 4)));
    sums += kStep;
  }
}

void LinearColumnsAvx512::Sum(const uint8_t* row, size_t bytes_behind, int16_t* sums) const {
  if (bytes_behind < kLoadBytes) {
    SumSteps<true>(row, sums);
  } else {
    SumSteps<false>(row, sums);
  }
}

BULKHEAD_FOR_AVX512 void MixRowsAvx512(const RowMix& rows, uint8_t* out) {
  int i = 0;
  const auto address = reinterpret_cast<uintptr_t>(out);
  if (rows.past_caches && address % sizeof(__m256i) == 0) {
    // To where a line begins.
    if (address % sizeof(__m512i) != 0 && rows.count >= 32) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(out), Mix32ToBytes(rows, 0));
      i = 32;
    }
    for (; i + 64 <= rows.count; i += 64) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(out + i), Mix64(rows, i));
    }
    if (i + 32 <= rows.count) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(out + i), Mix32ToBytes(rows, i));
      i += 32;
    }
  }
  for (; i + 64 <= rows.count; i += 64) _mm512_storeu_si512(out + i, Mix64(rows, i));
  if (i + 32 <= rows.count) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), Mix32ToBytes(rows, i));
    i += 32;
  }
  for (; i < rows.count; ++i) out[i] = rows.At(i);
}

#else

void LinearColumnsAvx512::Sum(const uint8_t*, size_t, int16_t*) const {}
void MixRowsAvx512(const RowMix&, uint8_t*) {}

#endif

}  // namespace bulkhead
