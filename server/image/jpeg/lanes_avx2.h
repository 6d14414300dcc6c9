#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "server/image/simd_target.h"

BULKHEAD_BEGIN_TARGET(BULKHEAD_AVX2)

namespace bulkhead::jpeg {

#define BULKHEAD_LANES __attribute__((always_inline)) static inline

// How three colours come together, each in the order of a lane's packed pixels.
struct InterleaveAvx2 {
  // By part of 16 bytes and colour, what is taken of the colour's bytes; the same in both lanes.
  alignas(32) int8_t masks[3][3][32] = {};

  constexpr InterleaveAvx2() {
    for (int part = 0; part < 3; ++part) {
      for (int channel = 0; channel < 3; ++channel) {
        for (int i = 0; i < 32; ++i) {
          const int at = 16 * part + i % 16;
          const int pixel = at / 3;
          const int place = pixel % 2 == 0 ? pixel / 2 : 8 + pixel / 2;
          masks[part][channel][i] = static_cast<int8_t>(at % 3 == channel ? place : -1);
        }
      }
    }
  }
};
inline constexpr InterleaveAvx2 kInterleaveAvx2;

// Two lanes of 128 bits: a line for each instruction, and no state. What mixes neighbours does so
// within each lane. lanes_avx512.h has the same for four lanes. Kernels call both `V`.
namespace lanes_avx2 {

// What makes, loads and stores them.

using Vec = __m256i;
inline constexpr int kCount = 2;
inline constexpr int kBytes = 32;

BULKHEAD_LANES Vec Zero() { return _mm256_setzero_si256(); }
BULKHEAD_LANES Vec Set8(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
BULKHEAD_LANES Vec Set16(int value) { return _mm256_set1_epi16(static_cast<int16_t>(value)); }
BULKHEAD_LANES Vec Set32(int value) { return _mm256_set1_epi32(value); }
// The same two 16-bit numbers again and again.
BULKHEAD_LANES Vec SetPairs16(int first, int second) {
  return Set32(static_cast<int>(static_cast<uint32_t>(second) << 16 |
                                (static_cast<uint32_t>(first) & 0xFFFF)));
}
BULKHEAD_LANES Vec Load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
BULKHEAD_LANES void Store(void* to, Vec value) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), value);
}
// kBytes / 2 bytes as 16-bit numbers.
BULKHEAD_LANES Vec Wide(const uint8_t* from) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
// 16 bytes to each lane, the next ones `step` bytes behind.
BULKHEAD_LANES Vec LoadApart(const void* from, ptrdiff_t step) {
  const char* const bytes = static_cast<const char*>(from);
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes))),
      _mm_load_si128(reinterpret_cast<const __m128i*>(bytes + step)), 1);
}
// The same 16 bytes to every lane.
BULKHEAD_LANES Vec LoadForAll(const void* from) {
  return _mm256_broadcastsi128_si256(_mm_load_si128(static_cast<const __m128i*>(from)));
}

// What is computed of numbers.

BULKHEAD_LANES Vec And(Vec a, Vec b) { return _mm256_and_si256(a, b); }
BULKHEAD_LANES Vec Or(Vec a, Vec b) { return _mm256_or_si256(a, b); }
BULKHEAD_LANES Vec Xor(Vec a, Vec b) { return _mm256_xor_si256(a, b); }
BULKHEAD_LANES Vec Add16(Vec a, Vec b) { return _mm256_add_epi16(a, b); }
BULKHEAD_LANES Vec Sub16(Vec a, Vec b) { return _mm256_sub_epi16(a, b); }
BULKHEAD_LANES Vec Add32(Vec a, Vec b) { return _mm256_add_epi32(a, b); }
BULKHEAD_LANES Vec Sub32(Vec a, Vec b) { return _mm256_sub_epi32(a, b); }
BULKHEAD_LANES Vec MulLow16(Vec a, Vec b) { return _mm256_mullo_epi16(a, b); }
BULKHEAD_LANES Vec MulHigh16(Vec a, Vec b) { return _mm256_mulhi_epi16(a, b); }
BULKHEAD_LANES Vec MulPairs16(Vec a, Vec b) { return _mm256_madd_epi16(a, b); }
template <int kBits>
BULKHEAD_LANES Vec Right16(Vec a) {
  return _mm256_srai_epi16(a, kBits);
}
template <int kBits>
BULKHEAD_LANES Vec RightUnsigned16(Vec a) {
  return _mm256_srli_epi16(a, kBits);
}
template <int kBits>
BULKHEAD_LANES Vec Left16(Vec a) {
  return _mm256_slli_epi16(a, kBits);
}
template <int kBits>
BULKHEAD_LANES Vec Right32(Vec a) {
  return _mm256_srai_epi32(a, kBits);
}
BULKHEAD_LANES bool AnyNegative16(Vec value) {
  return _mm256_movemask_epi8(_mm256_and_si256(value, Set16(INT16_MIN))) != 0;
}

// What moves numbers about.

BULKHEAD_LANES Vec LowHalvesFirst(Vec value) { return _mm256_permute4x64_epi64(value, 0xD8); }
// The lower half of each lane, one behind the other, to `low`, and the upper ones to `high`.
BULKHEAD_LANES void StoreHalves(Vec value, uint8_t* low, uint8_t* high) {
  value = LowHalvesFirst(value);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(low), _mm256_castsi256_si128(value));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(high), _mm256_extracti128_si256(value, 1));
}

BULKHEAD_LANES Vec Pack32(Vec a, Vec b) { return _mm256_packs_epi32(a, b); }
BULKHEAD_LANES Vec Pack16(Vec a, Vec b) { return _mm256_packs_epi16(a, b); }
BULKHEAD_LANES Vec PackUnsigned16(Vec a, Vec b) { return _mm256_packus_epi16(a, b); }
BULKHEAD_LANES Vec Low8(Vec a, Vec b) { return _mm256_unpacklo_epi8(a, b); }
BULKHEAD_LANES Vec High8(Vec a, Vec b) { return _mm256_unpackhi_epi8(a, b); }
BULKHEAD_LANES Vec Low16(Vec a, Vec b) { return _mm256_unpacklo_epi16(a, b); }
BULKHEAD_LANES Vec High16(Vec a, Vec b) { return _mm256_unpackhi_epi16(a, b); }
BULKHEAD_LANES Vec Low32(Vec a, Vec b) { return _mm256_unpacklo_epi32(a, b); }
BULKHEAD_LANES Vec High32(Vec a, Vec b) { return _mm256_unpackhi_epi32(a, b); }
BULKHEAD_LANES Vec Low64(Vec a, Vec b) { return _mm256_unpacklo_epi64(a, b); }
BULKHEAD_LANES Vec High64(Vec a, Vec b) { return _mm256_unpackhi_epi64(a, b); }

BULKHEAD_LANES Vec Pick(Vec bytes, int part, int channel) {
  return _mm256_shuffle_epi8(bytes, Load(kInterleaveAvx2.masks[part][channel]));
}
// Interleaved pixels of kBytes bytes of each colour, which in each lane stand with the even ones
// of 16 pixels first.
BULKHEAD_LANES void StoreThree(Vec first, Vec second, Vec third, uint8_t* out) {
#pragma GCC unroll 3
  for (int part = 0; part < 3; ++part) {
    const Vec bytes = Or(Or(Pick(first, part, 0), Pick(second, part, 1)), Pick(third, part, 2));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16 * part), _mm256_castsi256_si128(bytes));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 48 + 16 * part),
                     _mm256_extracti128_si256(bytes, 1));
  }
}

BULKHEAD_LANES void StoreFour(Vec first, Vec second, Vec third, Vec fourth, uint8_t* out) {
  const Vec upper_even = Low8(first, second);
  const Vec upper_odd = High8(first, second);
  const Vec lower_even = Low8(third, fourth);
  const Vec lower_odd = High8(third, fourth);
  const Vec even_low = Low16(upper_even, lower_even);
  const Vec even_high = High16(upper_even, lower_even);
  const Vec odd_low = Low16(upper_odd, lower_odd);
  const Vec odd_high = High16(upper_odd, lower_odd);
  const Vec parts[4] = {Low32(even_low, odd_low), High32(even_low, odd_low),
                        Low32(even_high, odd_high), High32(even_high, odd_high)};
#pragma GCC unroll 4
  for (int part = 0; part < 4; ++part) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16 * part),
                     _mm256_castsi256_si128(parts[part]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 64 + 16 * part),
                     _mm256_extracti128_si256(parts[part], 1));
  }
}

}  // namespace lanes_avx2

#undef BULKHEAD_LANES

}  // namespace bulkhead::jpeg

BULKHEAD_END_TARGET
