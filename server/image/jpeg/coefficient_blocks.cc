#include "server/image/jpeg/coefficient_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "server/base/little_endian.h"
#include "server/image/jpeg/header.h"
#include "server/image/jpeg/idct.h"
#include "server/image/simd_target.h"

// Every CPU that this runs on can count bits (cpu_check.cc), but the compiler need not know it.
#if defined(__x86_64__)
#define BULKHEAD_FOR_POPCNT __attribute__((target("popcnt")))
#else
#define BULKHEAD_FOR_POPCNT
#endif

namespace bulkhead::jpeg {
namespace {

uint64_t MapOf(const PackedRow& row, int block) {
  return LoadLittle<uint64_t>(row.maps + block * sizeof(uint64_t));
}
int16_t DcOf(const PackedRow& row, int block) {
  return LoadLittle<int16_t>(row.dcs + block * sizeof(int16_t));
}
bool IsWide(int16_t dc) { return (dc & 1) != 0; }

uint8_t LastOf(uint64_t map) {
  constexpr uint64_t kFourMap = 0x0F0F0F0F;  // the 4 × 4 lowest frequencies
  if (map == 0) return 0;
  return (map & ~kFourMap) == 0 ? kLastOfFour : kBlockCoefficients - 1;
}

template <typename Value>
const char* ExpandScalar(uint64_t map, const char* values, int16_t* out) {
  for (; map != 0; map &= map - 1, values += sizeof(Value)) {
    out[std::countr_zero(map)] = LoadLittle<Value>(values);
  }
  return values;
}

// Any block, one coefficient after another.
const char* ExpandBlock(uint64_t map, int16_t dc, const char* values, int16_t* out) {
  std::fill_n(out, kBlockCoefficients, 0);
  values =
      IsWide(dc) ? ExpandScalar<int16_t>(map, values, out) : ExpandScalar<int8_t>(map, values, out);
  out[0] = static_cast<int16_t>(dc >> 1);
  return values;
}

uint64_t MapScalar(const int16_t* block) {
  uint64_t map = 0;
  for (int k = 0; k < kBlockCoefficients; ++k) map |= uint64_t{block[k] != 0} << k;
  return map;
}

#if defined(__x86_64__)
#define BULKHEAD_FOR_AVX2 __attribute__((target("avx2,popcnt")))

// For the eight bits of a row of a map: where each of its coefficients stands among the values, and
// where in the row each of the values stands. A number with the upper bit set gives zero.
struct Places {
  alignas(64) std::array<std::array<uint8_t, 8>, 256> of_coefficients{};
  alignas(64) std::array<std::array<uint8_t, 8>, 256> of_values{};

  constexpr Places() {
    for (int bits = 0; bits < 256; ++bits) {
      uint8_t next = 0;
      for (uint8_t i = 0; i < 8; ++i) {
        of_coefficients[bits][i] = 0x80;
        of_values[bits][i] = 0x80;
      }
      for (uint8_t i = 0; i < 8; ++i) {
        if ((bits >> i & 1) == 0) continue;
        of_values[bits][next] = i;
        of_coefficients[bits][i] = next++;
      }
    }
  }
};
constexpr Places kPlaces;

BULKHEAD_FOR_AVX2 const char* ExpandBlockAvx2(uint64_t map, int16_t dc, const char* values,
                                              int16_t* out) {
#pragma GCC unroll 8
  for (int y = 0; y < kBlockSize; ++y) {
    const unsigned bits = map >> (8 * y) & 0xFF;
    const __m128i row = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(values));
    const __m128i places =
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kPlaces.of_coefficients[bits].data()));
    _mm_store_si128(reinterpret_cast<__m128i*>(out + static_cast<ptrdiff_t>(y) * kBlockSize),
                    _mm_cvtepi8_epi16(_mm_shuffle_epi8(row, places)));
    values += _mm_popcnt_u32(bits);
  }
  out[0] = static_cast<int16_t>(dc >> 1);
  return values;
}

BULKHEAD_FOR_AVX2 uint64_t MapAvx2(const int16_t* block) {
  uint64_t map = 0;
#pragma GCC unroll 4
  for (int part = 0; part < 4; ++part) {
    const auto* from = reinterpret_cast<const __m128i*>(block + static_cast<ptrdiff_t>(16) * part);
    const __m128i zero = _mm_setzero_si128();
    const __m128i zeros = _mm_packs_epi16(_mm_cmpeq_epi16(_mm_load_si128(from), zero),
                                          _mm_cmpeq_epi16(_mm_load_si128(from + 1), zero));
    map |= static_cast<uint64_t>(~_mm_movemask_epi8(zeros) & 0xFFFF) << 16 * part;
  }
  return map;
}

// Packs the coefficients of the map to `values`, where kBlockCoefficients bytes can be written, and
// zeroes the block. 0: one of them is wide, and nothing was done.
BULKHEAD_FOR_AVX2 size_t PackAvx2(int16_t* block, uint64_t map, char* values) {
  char* const begin = values;
  __m128i beyond = _mm_setzero_si128();
#pragma GCC unroll 8
  for (int y = 0; y < kBlockSize; ++y) {
    const unsigned bits = map >> (8 * y) & 0xFF;
    const __m128i row = _mm_load_si128(
        reinterpret_cast<const __m128i*>(block + static_cast<ptrdiff_t>(y) * kBlockSize));
    const __m128i narrow = _mm_packs_epi16(row, row);
    beyond = _mm_or_si128(beyond, _mm_xor_si128(row, _mm_cvtepi8_epi16(narrow)));
    const __m128i places =
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kPlaces.of_values[bits].data()));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(values), _mm_shuffle_epi8(narrow, places));
    values += _mm_popcnt_u32(bits);
  }
  if (!_mm_testz_si128(beyond, beyond)) return 0;
#pragma GCC unroll 4
  for (int part = 0; part < 4; ++part) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(block) + part, _mm256_setzero_si256());
  }
  return static_cast<size_t>(values - begin);
}

#define BULKHEAD_FOR_AVX512 __attribute__((target(BULKHEAD_AVX512 ",bmi2,popcnt")))

BULKHEAD_FOR_AVX512 __m512i ExpandWideAvx512(uint32_t map, const char* values) {
  const auto here = static_cast<unsigned>(_mm_popcnt_u32(map));
  return _mm512_maskz_expand_epi16(map,
                                   _mm512_maskz_loadu_epi16(_bzhi_u32(~uint32_t{0}, here), values));
}

BULKHEAD_FOR_AVX512 void ExpandBlocksAvx512(const PackedRow& row, int first, int count,
                                            const char* values, int16_t* out, uint8_t* last) {
  for (int i = 0; i < count; ++i, out += kBlockCoefficients) {
    const uint64_t map = MapOf(row, first + i);
    const int16_t dc = DcOf(row, first + i);
    last[i] = LastOf(map);
    __m512i low;
    __m512i high;
    if (IsWide(dc)) {
      const auto low_map = static_cast<uint32_t>(map);
      const auto high_map = static_cast<uint32_t>(map >> 32);
      low = ExpandWideAvx512(low_map, values);
      values += sizeof(int16_t) * static_cast<unsigned>(_mm_popcnt_u32(low_map));
      high = ExpandWideAvx512(high_map, values);
      values += sizeof(int16_t) * static_cast<unsigned>(_mm_popcnt_u32(high_map));
    } else {
      const auto here = static_cast<unsigned>(_mm_popcnt_u64(map));
      const __m512i packed = _mm512_maskz_loadu_epi8(_bzhi_u64(~uint64_t{0}, here), values);
      const __m512i block = _mm512_maskz_expand_epi8(map, packed);
      low = _mm512_cvtepi8_epi16(_mm512_castsi512_si256(block));
      high = _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(block, 1));
      values += here;
    }
    _mm512_storeu_si512(out, _mm512_mask_set1_epi16(low, 1, static_cast<int16_t>(dc >> 1)));
    _mm512_storeu_si512(out + 32, high);
  }
}

// The map of a block, and with `bytes` what PackAvx2 gives: one look at the block for both.
BULKHEAD_FOR_AVX512 uint64_t PackAvx512(int16_t* block, char* values, size_t& bytes) {
  const __m512i low = _mm512_loadu_si512(block);
  const __m512i high = _mm512_loadu_si512(block + 32);
  const uint64_t map = uint64_t{_mm512_test_epi16_mask(low, low)} |
                       uint64_t{_mm512_test_epi16_mask(high, high)} << 32;
  const __m256i narrow_low = _mm512_cvtepi16_epi8(low);
  const __m256i narrow_high = _mm512_cvtepi16_epi8(high);
  const bool wide = (_mm512_cmpneq_epi16_mask(_mm512_cvtepi8_epi16(narrow_low), low) |
                     _mm512_cmpneq_epi16_mask(_mm512_cvtepi8_epi16(narrow_high), high)) != 0;
  bytes = 0;
  if (wide) return map;
  const __m512i narrow = _mm512_inserti64x4(_mm512_castsi256_si512(narrow_low), narrow_high, 1);
  _mm512_storeu_si512(values, _mm512_maskz_compress_epi8(map, narrow));
  _mm512_storeu_si512(block, _mm512_setzero_si512());
  _mm512_storeu_si512(block + 32, _mm512_setzero_si512());
  bytes = static_cast<size_t>(_mm_popcnt_u64(map));
  return map;
}
#endif

}  // namespace

BULKHEAD_FOR_POPCNT size_t ValueBytes(const PackedRow& row, int first, int count) {
  size_t bytes = 0;
  for (int block = first; block < first + count; ++block) {
    bytes += static_cast<size_t>(std::popcount(MapOf(row, block)))
             << (IsWide(DcOf(row, block)) ? 1 : 0);
  }
  return bytes;
}

void ExpandBlocks(const PackedRow& row, int first, int count, const char* values, int16_t* out,
                  uint8_t* last, [[maybe_unused]] Simd simd) {
#if defined(__x86_64__)
  if (UseAvx512(simd)) return ExpandBlocksAvx512(row, first, count, values, out, last);
  const bool avx2 = UseAvx2(simd);
#endif
  for (int i = 0; i < count; ++i, out += kBlockCoefficients) {
    const uint64_t map = MapOf(row, first + i);
    const int16_t dc = DcOf(row, first + i);
    last[i] = LastOf(map);
#if defined(__x86_64__)
    if (avx2 && !IsWide(dc) && map != 0) {
      values = ExpandBlockAvx2(map, dc, values, out);
      continue;
    }
#endif
    values = ExpandBlock(map, dc, values, out);
  }
}

void RowPacker::Begin(int blocks) {
  count_ = 0;
  value_bytes_ = 0;
  maps_.resize(blocks);
  dcs_.resize(blocks);
  // Room for wide blocks, and what a store writes beyond the last value.
  values_.resize(static_cast<size_t>(blocks) * kBlockCoefficients * sizeof(int16_t) +
                 kBlockCoefficients);
}

void RowPacker::Add(int16_t* block, [[maybe_unused]] Simd simd) {
  dcs_[count_] = static_cast<int16_t>(block[0] * 2);
  block[0] = 0;
#if defined(__x86_64__)
  if (UseAvx2(simd)) {
    char* const values = values_.data() + value_bytes_;
    size_t bytes = 0;
    const bool avx512 = UseAvx512(simd);
    const uint64_t map = avx512 ? PackAvx512(block, values, bytes) : MapAvx2(block);
    maps_[count_++] = map;
    if (map == 0) return;
    if (!avx512) bytes = PackAvx2(block, map, values);
    value_bytes_ += bytes;
    if (bytes == 0) AddWide(block, map);
    return;
  }
#endif
  const uint64_t map = MapScalar(block);
  maps_[count_++] = map;
  char* to = values_.data() + value_bytes_;
  for (uint64_t left = map; left != 0; left &= left - 1) {
    const int16_t value = block[std::countr_zero(left)];
    *to++ = static_cast<char>(value);
    if (value != static_cast<int8_t>(value)) return AddWide(block, map);
  }
  value_bytes_ += std::popcount(map);
  std::fill_n(block, kBlockCoefficients, 0);
}

void RowPacker::AddWide(int16_t* block, uint64_t map) {
  dcs_[count_ - 1] = static_cast<int16_t>(dcs_[count_ - 1] + 1);
  for (; map != 0; map &= map - 1, value_bytes_ += sizeof(int16_t)) {
    StoreLittle<int16_t>(values_.data() + value_bytes_, block[std::countr_zero(map)]);
  }
  std::fill_n(block, kBlockCoefficients, 0);
}

void RowPacker::Finish(std::string& to) const {
  to.append(reinterpret_cast<const char*>(maps_.data()), maps_.size() * sizeof(uint64_t));
  to.append(reinterpret_cast<const char*>(dcs_.data()), dcs_.size() * sizeof(int16_t));
  to.append(values_.data(), value_bytes_);
}

}  // namespace bulkhead::jpeg
