#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "server/image/simd_target.h"

BULKHEAD_BEGIN_TARGET(BULKHEAD_AVX512)

namespace bulkhead::jpeg {

#define BULKHEAD_LANES __attribute__((always_inline)) static inline

// How colours come together, each in the order of a lane's packed pixels: byte `i` of part `part`
// is number `index` of the 128 bytes of its pair of colours, of the second pair where `mask` has a
// bit.
template <int kChannels>
struct InterleaveAvx512 {
  alignas(64) uint8_t index[kChannels][64] = {};
  uint64_t mask[kChannels] = {};

  constexpr InterleaveAvx512() {
    for (int at = 0; at < 64 * kChannels; ++at) {
      const int channel = at % kChannels;
      const int pixel = at / kChannels;
      const int within = pixel % 16;
      const int place = pixel - within + (within % 2 == 0 ? within / 2 : 8 + within / 2);
      index[at / 64][at % 64] = static_cast<uint8_t>(64 * (channel % 2) + place);
      if (channel >= 2) mask[at / 64] |= uint64_t{1} << (at % 64);
    }
  }
};
template <int kChannels>
inline constexpr InterleaveAvx512<kChannels> kInterleaveAvx512;

// Four lanes of 128 bits, otherwise as in lanes_avx2.h.
namespace lanes_avx512 {

using Vec = __m512i;
inline constexpr int kCount = 4;
inline constexpr int kBytes = 64;

BULKHEAD_LANES Vec Zero() { return _mm512_setzero_si512(); }
BULKHEAD_LANES Vec Set8(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }
BULKHEAD_LANES Vec Set16(int value) { return _mm512_set1_epi16(static_cast<int16_t>(value)); }
BULKHEAD_LANES Vec Set32(int value) { return _mm512_set1_epi32(value); }
// The same two 16-bit numbers again and again.
BULKHEAD_LANES Vec SetPairs16(int first, int second) {
  return Set32(static_cast<int>(static_cast<uint32_t>(second) << 16 |
                                (static_cast<uint32_t>(first) & 0xFFFF)));
}
BULKHEAD_LANES Vec Load(const void* from) { return _mm512_loadu_si512(from); }
BULKHEAD_LANES void Store(void* to, Vec value) { _mm512_storeu_si512(to, value); }
BULKHEAD_LANES Vec Wide(const uint8_t* from) {
  return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
BULKHEAD_LANES Vec LoadApart(const void* from, ptrdiff_t step) {
  const char* const bytes = static_cast<const char*>(from);
  const auto lane = [&](int number) __attribute__((always_inline)) {
    return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes + number * step));
  };
  const __m256i lower = _mm256_inserti128_si256(_mm256_castsi128_si256(lane(0)), lane(1), 1);
  const __m256i upper = _mm256_inserti128_si256(_mm256_castsi128_si256(lane(2)), lane(3), 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1);
}
BULKHEAD_LANES Vec LoadForAll(const void* from) {
  return _mm512_broadcast_i32x4(_mm_load_si128(static_cast<const __m128i*>(from)));
}

// What is computed of numbers.

BULKHEAD_LANES Vec And(Vec a, Vec b) { return _mm512_and_si512(a, b); }
BULKHEAD_LANES Vec Or(Vec a, Vec b) { return _mm512_or_si512(a, b); }
BULKHEAD_LANES Vec Xor(Vec a, Vec b) { return _mm512_xor_si512(a, b); }
BULKHEAD_LANES Vec Add16(Vec a, Vec b) { return _mm512_add_epi16(a, b); }
BULKHEAD_LANES Vec Sub16(Vec a, Vec b) { return _mm512_sub_epi16(a, b); }
BULKHEAD_LANES Vec Add32(Vec a, Vec b) { return _mm512_add_epi32(a, b); }
BULKHEAD_LANES Vec Sub32(Vec a, Vec b) { return _mm512_sub_epi32(a, b); }
BULKHEAD_LANES Vec MulLow16(Vec a, Vec b) { return _mm512_mullo_epi16(a, b); }
BULKHEAD_LANES Vec MulHigh16(Vec a, Vec b) { return _mm512_mulhi_epi16(a, b); }
BULKHEAD_LANES Vec MulPairs16(Vec a, Vec b) { return _mm512_madd_epi16(a, b); }
template <int kBits>
BULKHEAD_LANES Vec Right16(Vec a) {
  return _mm512_srai_epi16(a, kBits);
}
template <int kBits>
BULKHEAD_LANES Vec RightUnsigned16(Vec a) {
  return _mm512_srli_epi16(a, kBits);
}
template <int kBits>
BULKHEAD_LANES Vec Left16(Vec a) {
  return _mm512_slli_epi16(a, kBits);
}
template <int kBits>
BULKHEAD_LANES Vec Right32(Vec a) {
  return _mm512_srai_epi32(a, kBits);
}
BULKHEAD_LANES bool AnyNegative16(Vec value) { return _mm512_movepi16_mask(value) != 0; }

// What moves numbers about.

BULKHEAD_LANES Vec LowHalvesFirst(Vec value) {
  return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), value);
}
BULKHEAD_LANES void StoreHalves(Vec value, uint8_t* low, uint8_t* high) {
  value = LowHalvesFirst(value);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(low), _mm512_castsi512_si256(value));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(high), _mm512_extracti64x4_epi64(value, 1));
}

BULKHEAD_LANES Vec Pack32(Vec a, Vec b) { return _mm512_packs_epi32(a, b); }
BULKHEAD_LANES Vec Pack16(Vec a, Vec b) { return _mm512_packs_epi16(a, b); }
BULKHEAD_LANES Vec PackUnsigned16(Vec a, Vec b) { return _mm512_packus_epi16(a, b); }
BULKHEAD_LANES Vec Low8(Vec a, Vec b) { return _mm512_unpacklo_epi8(a, b); }
BULKHEAD_LANES Vec High8(Vec a, Vec b) { return _mm512_unpackhi_epi8(a, b); }
BULKHEAD_LANES Vec Low16(Vec a, Vec b) { return _mm512_unpacklo_epi16(a, b); }
BULKHEAD_LANES Vec High16(Vec a, Vec b) { return _mm512_unpackhi_epi16(a, b); }
BULKHEAD_LANES Vec Low32(Vec a, Vec b) { return _mm512_unpacklo_epi32(a, b); }
BULKHEAD_LANES Vec High32(Vec a, Vec b) { return _mm512_unpackhi_epi32(a, b); }
BULKHEAD_LANES Vec Low64(Vec a, Vec b) { return _mm512_unpacklo_epi64(a, b); }
BULKHEAD_LANES Vec High64(Vec a, Vec b) { return _mm512_unpackhi_epi64(a, b); }

template <int kChannels>
BULKHEAD_LANES void StoreParts(Vec first, Vec second, Vec third, Vec fourth, uint8_t* out) {
#pragma GCC unroll 4
  for (int part = 0; part < kChannels; ++part) {
    const Vec index = Load(kInterleaveAvx512<kChannels>.index[part]);
    const Vec pair = _mm512_permutex2var_epi8(first, index, second);
    const __mmask64 of_others = kInterleaveAvx512<kChannels>.mask[part];
    const Vec bytes = kChannels == 3
                          ? _mm512_mask_permutexvar_epi8(pair, of_others, index, third)
                          : _mm512_mask_blend_epi8(of_others, pair,
                                                   _mm512_permutex2var_epi8(third, index, fourth));
    Store(out + 64 * part, bytes);
  }
}
BULKHEAD_LANES void StoreThree(Vec first, Vec second, Vec third, uint8_t* out) {
  StoreParts<3>(first, second, third, Zero(), out);
}
BULKHEAD_LANES void StoreFour(Vec first, Vec second, Vec third, Vec fourth, uint8_t* out) {
  StoreParts<4>(first, second, third, fourth, out);
}

}  // namespace lanes_avx512

#undef BULKHEAD_LANES

}  // namespace bulkhead::jpeg

BULKHEAD_END_TARGET
