#include "server/image/jpeg/color_convert.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bulkhead::jpeg {
namespace {

// Factors of the equations in units of 2^-16, rounded.
constexpr int kCrToRed = 91881;    // 1.402
constexpr int kCbToGreen = 22554;  // 0.34414
constexpr int kCrToGreen = 46802;  // 0.71414
constexpr int kCbToBlue = 116130;  // 1.772
constexpr int kHalf = 1 << 15;

uint8_t Clamp(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

void ConvertScalar(const YccRow& row, int count, PixelFormat format, uint8_t* out) {
  const int channels = ChannelCount(format);
  const int red_at = format == PixelFormat::kBgr ? 2 : 0;
  for (int i = 0; i < count; ++i, out += channels) {
    const int y = row.y[i];
    const int cb = row.cb[i] - 128;
    const int cr = row.cr[i] - 128;
    out[red_at] = Clamp(y + ((kCrToRed * cr + kHalf) >> 16));
    out[1] = Clamp(y + ((-kCbToGreen * cb - kCrToGreen * cr + kHalf) >> 16));
    out[2 - red_at] = Clamp(y + ((kCbToBlue * cb + kHalf) >> 16));
    if (channels == 4) out[3] = 255;
  }
}

#if defined(__x86_64__)

#define BULKHEAD_AVX2 __attribute__((target("avx2"), always_inline)) inline

constexpr int kStep = 32;  // pixels

struct Colors {
  __m256i red, green, blue;
};

// 16 pixels in 16 bits each; the chroma around zero. The factors are taken apart into whole numbers
// and what 16 bits hold: the same sums.
BULKHEAD_AVX2 Colors Convert(__m256i y, __m256i cb, __m256i cr) {
  const __m256i one = _mm256_set1_epi16(1);
  const __m256i cb2 = _mm256_add_epi16(cb, cb);
  const __m256i cr2 = _mm256_add_epi16(cr, cr);
  // Products by twice the value, cut off, plus one, halved: rounded products.
  const __m256i red = _mm256_mulhi_epi16(cr2, _mm256_set1_epi16(kCrToRed - 65536));
  const __m256i blue = _mm256_mulhi_epi16(cb2, _mm256_set1_epi16(kCbToBlue - 131072));
  const __m256i factors =
      _mm256_set1_epi32(static_cast<int>(static_cast<uint32_t>(65536 - kCrToGreen) << 16 |
                                         (static_cast<uint32_t>(-kCbToGreen) & 0xFFFF)));
  const __m256i half = _mm256_set1_epi32(kHalf);
  const __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), factors);
  const __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), factors);
  const __m256i green = _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(low, half), 16),
                                           _mm256_srai_epi32(_mm256_add_epi32(high, half), 16));
  Colors colors;
  colors.red =
      _mm256_add_epi16(_mm256_add_epi16(y, cr), _mm256_srai_epi16(_mm256_add_epi16(red, one), 1));
  colors.green = _mm256_add_epi16(_mm256_sub_epi16(y, cr), green);
  colors.blue =
      _mm256_add_epi16(_mm256_add_epi16(y, cb2), _mm256_srai_epi16(_mm256_add_epi16(blue, one), 1));
  return colors;
}

// 32 pixels to bytes: in each half those of 16 pixels, the even ones first.
BULKHEAD_AVX2 Colors ConvertStep(const YccRow& row, ptrdiff_t at) {
  const auto load = [at](const uint8_t* from) __attribute__((target("avx2"), always_inline)) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
  };
  const __m256i y = load(row.y);
  const __m256i cb = load(row.cb);
  const __m256i cr = load(row.cr);
  const __m256i even = _mm256_set1_epi16(0xFF);
  const __m256i middle = _mm256_set1_epi16(128);
  const Colors a =
      Convert(_mm256_and_si256(y, even), _mm256_sub_epi16(_mm256_and_si256(cb, even), middle),
              _mm256_sub_epi16(_mm256_and_si256(cr, even), middle));
  const Colors b =
      Convert(_mm256_srli_epi16(y, 8), _mm256_sub_epi16(_mm256_srli_epi16(cb, 8), middle),
              _mm256_sub_epi16(_mm256_srli_epi16(cr, 8), middle));
  return {_mm256_packus_epi16(a.red, b.red), _mm256_packus_epi16(a.green, b.green),
          _mm256_packus_epi16(a.blue, b.blue)};
}

// Where byte `at` of 16 interleaved pixels comes from, when it is of the `channel`th of three.
constexpr int8_t SourceOf(int at, int channel) {
  if (at % 3 != channel) return -1;
  const int pixel = at / 3;
  return static_cast<int8_t>(pixel % 2 == 0 ? pixel / 2 : 8 + pixel / 2);
}

struct Interleave {
  // By part of 16 bytes and channel; each twice, for both halves.
  alignas(32) std::array<std::array<std::array<int8_t, 32>, 3>, 3> masks{};

  constexpr Interleave() {
    for (int part = 0; part < 3; ++part) {
      for (int channel = 0; channel < 3; ++channel) {
        for (int i = 0; i < 32; ++i) {
          masks[part][channel][i] = SourceOf(16 * part + i % 16, channel);
        }
      }
    }
  }
};
constexpr Interleave kInterleave;

BULKHEAD_AVX2 void StoreThree(__m256i first, __m256i second, __m256i third, uint8_t* out) {
#pragma GCC unroll 3
  for (int part = 0; part < 3; ++part) {
    const auto pick = [part](__m256i bytes, int channel)
        __attribute__((target("avx2"), always_inline)) {
      return _mm256_shuffle_epi8(bytes, _mm256_load_si256(reinterpret_cast<const __m256i*>(
                                            kInterleave.masks[part][channel].data())));
    };
    const __m256i bytes =
        _mm256_or_si256(_mm256_or_si256(pick(first, 0), pick(second, 1)), pick(third, 2));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16 * part), _mm256_castsi256_si128(bytes));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 48 + 16 * part),
                     _mm256_extracti128_si256(bytes, 1));
  }
}

BULKHEAD_AVX2 void StoreFour(const Colors& colors, uint8_t* out) {
  const __m256i opaque = _mm256_set1_epi8(-1);
  const __m256i rg_even = _mm256_unpacklo_epi8(colors.red, colors.green);
  const __m256i rg_odd = _mm256_unpackhi_epi8(colors.red, colors.green);
  const __m256i ba_even = _mm256_unpacklo_epi8(colors.blue, opaque);
  const __m256i ba_odd = _mm256_unpackhi_epi8(colors.blue, opaque);
  const __m256i even_low = _mm256_unpacklo_epi16(rg_even, ba_even);
  const __m256i even_high = _mm256_unpackhi_epi16(rg_even, ba_even);
  const __m256i odd_low = _mm256_unpacklo_epi16(rg_odd, ba_odd);
  const __m256i odd_high = _mm256_unpackhi_epi16(rg_odd, ba_odd);
  const __m256i parts[4] = {
      _mm256_unpacklo_epi32(even_low, odd_low), _mm256_unpackhi_epi32(even_low, odd_low),
      _mm256_unpacklo_epi32(even_high, odd_high), _mm256_unpackhi_epi32(even_high, odd_high)};
#pragma GCC unroll 4
  for (int part = 0; part < 4; ++part) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16 * part),
                     _mm256_castsi256_si128(parts[part]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 64 + 16 * part),
                     _mm256_extracti128_si256(parts[part], 1));
  }
}

template <PixelFormat kFormat>
BULKHEAD_AVX2 void StoreStep(const Colors& colors, uint8_t* out) {
  if (kFormat == PixelFormat::kRgba) {
    StoreFour(colors, out);
  } else if (kFormat == PixelFormat::kBgr) {
    StoreThree(colors.blue, colors.green, colors.red, out);
  } else {
    StoreThree(colors.red, colors.green, colors.blue, out);
  }
}

template <PixelFormat kFormat>
__attribute__((target("avx2"))) void ConvertAvx2(const YccRow& row, int count, uint8_t* out) {
  const ptrdiff_t channels = ChannelCount(kFormat);
  ptrdiff_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    StoreStep<kFormat>(ConvertStep(row, i), out + i * channels);
  }
  if (i == count) return;
  uint8_t rest[kStep * 4];
  StoreStep<kFormat>(ConvertStep(row, i), rest);
  std::memcpy(out + i * channels, rest, (count - i) * channels);
}

bool CanRun(Simd simd) { return simd == Simd::kBest && __builtin_cpu_supports("avx2") != 0; }

#else

bool CanRun(Simd) { return false; }
template <PixelFormat kFormat>
void ConvertAvx2(const YccRow&, int, uint8_t*) {}

#endif

}  // namespace

void ConvertRow(const YccRow& row, int count, PixelFormat format, uint8_t* out, Simd simd) {
  if (!CanRun(simd)) return ConvertScalar(row, count, format, out);
  switch (format) {
    case PixelFormat::kBgr:
      return ConvertAvx2<PixelFormat::kBgr>(row, count, out);
    case PixelFormat::kRgba:
      return ConvertAvx2<PixelFormat::kRgba>(row, count, out);
    default:
      return ConvertAvx2<PixelFormat::kRgb>(row, count, out);
  }
}

}  // namespace bulkhead::jpeg
