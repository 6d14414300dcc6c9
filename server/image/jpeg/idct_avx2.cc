#include "server/image/jpeg/idct_avx2.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>

#define BULKHEAD_AVX2 __attribute__((target("avx2"), always_inline)) inline

namespace bulkhead::jpeg {
namespace {

// Two 16-bit factors for each pair of neighbouring values.
BULKHEAD_AVX2 __m256i Factors(int first, int second) {
  return _mm256_set1_epi32(static_cast<int>(static_cast<uint32_t>(second) << 16 |
                                            (static_cast<uint32_t>(first) & 0xFFFF)));
}

// One half of a pass: inputs as pairs (0, 4), (2, 6), (1, 3), (5, 7) in eight columns.
struct Pairs {
  __m256i p04, p26, p13, p57;
};
struct Sums {
  __m256i out[8];
};

// kFour: inputs 4 to 7 are zero.
template <bool kFour>
BULKHEAD_AVX2 Sums Transform(const Pairs& in, __m256i round) {
  __m256i sum = _mm256_madd_epi16(in.p04, Factors(8192, 8192));
  __m256i difference = kFour ? sum : _mm256_madd_epi16(in.p04, Factors(8192, -8192));
  const __m256i outer = _mm256_madd_epi16(in.p26, Factors(10703, 4433));
  const __m256i inner = _mm256_madd_epi16(in.p26, Factors(4433, -10704));
  __m256i odd0 = _mm256_madd_epi16(in.p13, Factors(11363, 9633));
  __m256i odd1 = _mm256_madd_epi16(in.p13, Factors(9633, -2259));
  __m256i odd2 = _mm256_madd_epi16(in.p13, Factors(6437, -11362));
  __m256i odd3 = _mm256_madd_epi16(in.p13, Factors(2260, -6436));
  if (!kFour) {
    odd0 = _mm256_add_epi32(odd0, _mm256_madd_epi16(in.p57, Factors(6437, 2260)));
    odd1 = _mm256_add_epi32(odd1, _mm256_madd_epi16(in.p57, Factors(-11362, -6436)));
    odd2 = _mm256_add_epi32(odd2, _mm256_madd_epi16(in.p57, Factors(2261, 9633)));
    odd3 = _mm256_add_epi32(odd3, _mm256_madd_epi16(in.p57, Factors(9633, -11363)));
  }
  sum = _mm256_add_epi32(sum, round);
  difference = _mm256_add_epi32(difference, round);
  const __m256i even0 = _mm256_add_epi32(sum, outer);
  const __m256i even3 = _mm256_sub_epi32(sum, outer);
  const __m256i even1 = _mm256_add_epi32(difference, inner);
  const __m256i even2 = _mm256_sub_epi32(difference, inner);
  return {{_mm256_add_epi32(even0, odd0), _mm256_add_epi32(even1, odd1),
           _mm256_add_epi32(even2, odd2), _mm256_add_epi32(even3, odd3),
           _mm256_sub_epi32(even3, odd3), _mm256_sub_epi32(even2, odd2),
           _mm256_sub_epi32(even1, odd1), _mm256_sub_epi32(even0, odd0)}};
}

// One pass over eight vectors of 16 values, rounded to 2^kShift and saturated to 16 bits.
template <bool kFour, int kShift>
BULKHEAD_AVX2 void Pass(__m256i* v) {
  const __m256i round = _mm256_set1_epi32(1 << (kShift - 1));
  const __m256i zero = _mm256_setzero_si256();
  Pairs low;
  Pairs high;
  low.p04 = _mm256_unpacklo_epi16(v[0], kFour ? zero : v[4]);
  high.p04 = _mm256_unpackhi_epi16(v[0], kFour ? zero : v[4]);
  low.p26 = _mm256_unpacklo_epi16(v[2], kFour ? zero : v[6]);
  high.p26 = _mm256_unpackhi_epi16(v[2], kFour ? zero : v[6]);
  low.p13 = _mm256_unpacklo_epi16(v[1], v[3]);
  high.p13 = _mm256_unpackhi_epi16(v[1], v[3]);
  low.p57 = kFour ? zero : _mm256_unpacklo_epi16(v[5], v[7]);
  high.p57 = kFour ? zero : _mm256_unpackhi_epi16(v[5], v[7]);
  const Sums a = Transform<kFour>(low, round);
  const Sums b = Transform<kFour>(high, round);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    v[i] = _mm256_packs_epi32(_mm256_srai_epi32(a.out[i], kShift),
                              _mm256_srai_epi32(b.out[i], kShift));
  }
}

// Exchanges rows and columns in each half.
template <bool kFour>
BULKHEAD_AVX2 void Transpose(__m256i* v) {
  const __m256i a0 = _mm256_unpacklo_epi16(v[0], v[1]);
  const __m256i a1 = _mm256_unpacklo_epi16(v[2], v[3]);
  const __m256i a2 = _mm256_unpacklo_epi16(v[4], v[5]);
  const __m256i a3 = _mm256_unpacklo_epi16(v[6], v[7]);
  const __m256i c0 = _mm256_unpacklo_epi32(a0, a1);
  const __m256i c1 = _mm256_unpackhi_epi32(a0, a1);
  const __m256i c2 = _mm256_unpacklo_epi32(a2, a3);
  const __m256i c3 = _mm256_unpackhi_epi32(a2, a3);
  if (!kFour) {
    const __m256i b0 = _mm256_unpackhi_epi16(v[0], v[1]);
    const __m256i b1 = _mm256_unpackhi_epi16(v[2], v[3]);
    const __m256i b2 = _mm256_unpackhi_epi16(v[4], v[5]);
    const __m256i b3 = _mm256_unpackhi_epi16(v[6], v[7]);
    const __m256i d0 = _mm256_unpacklo_epi32(b0, b1);
    const __m256i d1 = _mm256_unpackhi_epi32(b0, b1);
    const __m256i d2 = _mm256_unpacklo_epi32(b2, b3);
    const __m256i d3 = _mm256_unpackhi_epi32(b2, b3);
    v[4] = _mm256_unpacklo_epi64(d0, d2);
    v[5] = _mm256_unpackhi_epi64(d0, d2);
    v[6] = _mm256_unpacklo_epi64(d1, d3);
    v[7] = _mm256_unpackhi_epi64(d1, d3);
  }
  v[0] = _mm256_unpacklo_epi64(c0, c2);
  v[1] = _mm256_unpackhi_epi64(c0, c2);
  v[2] = _mm256_unpacklo_epi64(c1, c3);
  v[3] = _mm256_unpackhi_epi64(c1, c3);
}

// Columns of 16 bits to rows of bytes around 128: out[i] holds rows 2 i and 2 i + 1, of the first
// block and the second each.
BULKHEAD_AVX2 void ToRows(const __m256i* v, __m256i* out) {
  const __m256i offset = _mm256_set1_epi8(-128);
  const __m256i c01 = _mm256_packs_epi16(v[0], v[1]);
  const __m256i c23 = _mm256_packs_epi16(v[2], v[3]);
  const __m256i c45 = _mm256_packs_epi16(v[4], v[5]);
  const __m256i c67 = _mm256_packs_epi16(v[6], v[7]);
  const __m256i c02 = _mm256_unpacklo_epi8(c01, c23);
  const __m256i c13 = _mm256_unpackhi_epi8(c01, c23);
  const __m256i c46 = _mm256_unpacklo_epi8(c45, c67);
  const __m256i c57 = _mm256_unpackhi_epi8(c45, c67);
  const __m256i upper_left = _mm256_unpacklo_epi8(c02, c13);
  const __m256i lower_left = _mm256_unpackhi_epi8(c02, c13);
  const __m256i upper_right = _mm256_unpacklo_epi8(c46, c57);
  const __m256i lower_right = _mm256_unpackhi_epi8(c46, c57);
  out[0] = _mm256_unpacklo_epi32(upper_left, upper_right);
  out[1] = _mm256_unpackhi_epi32(upper_left, upper_right);
  out[2] = _mm256_unpacklo_epi32(lower_left, lower_right);
  out[3] = _mm256_unpackhi_epi32(lower_left, lower_right);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    out[i] = _mm256_permute4x64_epi64(_mm256_xor_si256(out[i], offset), 0xD8);
  }
}

// Added to a value between the passes, it makes those negative that are out of bounds.
constexpr int16_t kShifted = kMaxBetween + 1;

// Two blocks, or with kPair false one. `beyond` collects what was too large, in its sign bits.
template <bool kFour, bool kPair>
BULKHEAD_AVX2 void TransformBlocks(int16_t* block, const Dequantizer& quant, uint8_t* out,
                                   ptrdiff_t stride, __m256i& beyond) {
  __m256i v[8];
#pragma GCC unroll 8
  for (int y = 0; y < (kFour ? 4 : 8); ++y) {
    const int16_t* row = block + static_cast<ptrdiff_t>(y) * kBlockSize;
    __m256i in = _mm256_castsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(row)));
    in = kPair ? _mm256_inserti128_si256(
                     in, _mm_load_si128(reinterpret_cast<const __m128i*>(row + kBlockCoefficients)),
                     1)
               : _mm256_inserti128_si256(in, _mm_setzero_si128(), 1);
    const __m256i factors = _mm256_broadcastsi128_si256(_mm_load_si128(
        reinterpret_cast<const __m128i*>(quant.factors + static_cast<ptrdiff_t>(y) * kBlockSize)));
    v[y] = _mm256_mullo_epi16(in, factors);
  }
  // Rows from the fifth on are zero already when kFour.
  const __m256i zero = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int i = 0; i < (kPair ? 8 : 4); ++i) {
    if (kFour && (i & 2) != 0) continue;
    _mm256_store_si256(reinterpret_cast<__m256i*>(block) + i, zero);
  }
  Pass<kFour, 11>(v);
  const __m256i shifted = _mm256_set1_epi16(kShifted);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) beyond = _mm256_or_si256(beyond, _mm256_add_epi16(v[i], shifted));
  Transpose<kFour>(v);
  Pass<kFour, 18>(v);
  __m256i rows[4];
  ToRows(v, rows);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    uint8_t* to = out + 2 * i * stride;
    const __m128i first = _mm256_castsi256_si128(rows[i]);
    const __m128i second = _mm256_extracti128_si256(rows[i], 1);
    if (kPair) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), first);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + stride), second);
    } else {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(to), first);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(to + stride), second);
    }
  }
}

BULKHEAD_AVX2 uint64_t OneColour(int dc) {
  const int sample = std::clamp(((dc + 4) >> 3) + 128, 0, 255);
  return 0x0101010101010101u * static_cast<uint64_t>(sample);
}

// kFour: what the 4 × 4 lowest frequencies hold comes before the eleventh coefficient.
constexpr int kLastOfFour = 9;

}  // namespace

bool CanTransformAvx2() { return __builtin_cpu_supports("avx2") != 0; }

__attribute__((target("avx2"))) bool InverseTransformAvx2(const BlockRow& blocks,
                                                          const Dequantizer& quant, uint8_t* out,
                                                          ptrdiff_t stride) {
  __m256i beyond = _mm256_setzero_si256();
  int i = 0;
  for (; i + 2 <= blocks.count; i += 2) {
    int16_t* block = blocks.coefficients + static_cast<ptrdiff_t>(i) * kBlockCoefficients;
    uint8_t* to = out + static_cast<ptrdiff_t>(i) * kBlockSize;
    const int last = std::max(blocks.last[i], blocks.last[i + 1]);
    if (last == 0) {
      const __m128i both = _mm_set_epi64x(
          static_cast<int64_t>(OneColour(block[kBlockCoefficients] * quant.factors[0])),
          static_cast<int64_t>(OneColour(block[0] * quant.factors[0])));
      for (int y = 0; y < kBlockSize; ++y) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + y * stride), both);
      }
      block[0] = block[kBlockCoefficients] = 0;
    } else if (last <= kLastOfFour) {
      TransformBlocks<true, true>(block, quant, to, stride, beyond);
    } else {
      TransformBlocks<false, true>(block, quant, to, stride, beyond);
    }
  }
  if (i < blocks.count) {
    int16_t* block = blocks.coefficients + static_cast<ptrdiff_t>(i) * kBlockCoefficients;
    uint8_t* to = out + static_cast<ptrdiff_t>(i) * kBlockSize;
    if (blocks.last[i] == 0) {
      const uint64_t samples = OneColour(block[0] * quant.factors[0]);
      for (int y = 0; y < kBlockSize; ++y) std::memcpy(to + y * stride, &samples, sizeof(samples));
      block[0] = 0;
    } else {
      TransformBlocks<false, false>(block, quant, to, stride, beyond);
    }
  }
  return _mm256_movemask_epi8(beyond & _mm256_set1_epi16(INT16_MIN)) == 0;
}

}  // namespace bulkhead::jpeg

#else

namespace bulkhead::jpeg {

bool CanTransformAvx2() { return false; }
bool InverseTransformAvx2(const BlockRow&, const Dequantizer&, uint8_t*, ptrdiff_t) {
  return false;
}

}  // namespace bulkhead::jpeg

#endif
