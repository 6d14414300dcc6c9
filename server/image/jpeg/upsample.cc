#include "server/image/jpeg/upsample.h"

#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bulkhead::jpeg {
namespace {

void AcrossScalar(const uint8_t* in, int count, uint8_t* out) {
  for (ptrdiff_t i = 0; i < count; ++i) {
    const int middle = 3 * in[i];
    out[2 * i] = static_cast<uint8_t>((middle + in[i - 1] + 1) >> 2);
    out[2 * i + 1] = static_cast<uint8_t>((middle + in[i + 1] + 2) >> 2);
  }
}

void DownScalar(const uint8_t* near, const uint8_t* far, int bias, int count, uint8_t* out) {
  for (int i = 0; i < count; ++i) {
    out[i] = static_cast<uint8_t>((3 * near[i] + far[i] + bias) >> 2);
  }
}

void BothScalar(const uint8_t* near, const uint8_t* far, int count, uint8_t* out) {
  int left = 3 * near[-1] + far[-1];
  int middle = 3 * near[0] + far[0];
  for (ptrdiff_t i = 0; i < count; ++i) {
    const int right = 3 * near[i + 1] + far[i + 1];
    out[2 * i] = static_cast<uint8_t>((3 * middle + left + 8) >> 4);
    out[2 * i + 1] = static_cast<uint8_t>((3 * middle + right + 7) >> 4);
    left = middle;
    middle = right;
  }
}

#if defined(__x86_64__)

#define BULKHEAD_AVX2 __attribute__((target("avx2"), always_inline)) inline

// 16 bytes as 16-bit numbers.
BULKHEAD_AVX2 __m256i Wide(const uint8_t* in) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
}

BULKHEAD_AVX2 __m256i Three(__m256i value) {
  return _mm256_add_epi16(value, _mm256_add_epi16(value, value));
}

// 16 left results and 16 right ones, each below 256, side by side.
BULKHEAD_AVX2 void StorePairs(__m256i left, __m256i right, uint8_t* out) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                      _mm256_or_si256(left, _mm256_slli_epi16(right, 8)));
}

__attribute__((target("avx2"))) void AcrossAvx2(const uint8_t* in, int count, uint8_t* out) {
  const __m256i one = _mm256_set1_epi16(1);
  const __m256i two = _mm256_set1_epi16(2);
  for (ptrdiff_t i = 0; i < count; i += 16) {
    const __m256i middle = Three(Wide(in + i));
    const __m256i left = _mm256_add_epi16(_mm256_add_epi16(middle, one), Wide(in + i - 1));
    const __m256i right = _mm256_add_epi16(_mm256_add_epi16(middle, two), Wide(in + i + 1));
    StorePairs(_mm256_srli_epi16(left, 2), _mm256_srli_epi16(right, 2), out + 2 * i);
  }
}

__attribute__((target("avx2"))) void DownAvx2(const uint8_t* near, const uint8_t* far, int bias,
                                              int count, uint8_t* out) {
  const __m256i round = _mm256_set1_epi16(static_cast<int16_t>(bias));
  const auto mix = [&](ptrdiff_t i) __attribute__((target("avx2"), always_inline)) {
    const __m256i sum = _mm256_add_epi16(Three(Wide(near + i)), Wide(far + i));
    return _mm256_srli_epi16(_mm256_add_epi16(sum, round), 2);
  };
  for (ptrdiff_t i = 0; i < count; i += 32) {
    const __m256i bytes = _mm256_packus_epi16(mix(i), mix(i + 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_permute4x64_epi64(bytes, 0xD8));
  }
}

__attribute__((target("avx2"))) void BothAvx2(const uint8_t* near, const uint8_t* far, int count,
                                              uint8_t* out) {
  const __m256i seven = _mm256_set1_epi16(7);
  const __m256i eight = _mm256_set1_epi16(8);
  const auto column = [&](ptrdiff_t i) __attribute__((target("avx2"), always_inline)) {
    return _mm256_add_epi16(Three(Wide(near + i)), Wide(far + i));
  };
  for (ptrdiff_t i = 0; i < count; i += 16) {
    const __m256i middle = Three(column(i));
    const __m256i left = _mm256_add_epi16(_mm256_add_epi16(middle, eight), column(i - 1));
    const __m256i right = _mm256_add_epi16(_mm256_add_epi16(middle, seven), column(i + 1));
    StorePairs(_mm256_srli_epi16(left, 4), _mm256_srli_epi16(right, 4), out + 2 * i);
  }
}

bool CanRun(Simd simd) { return simd == Simd::kBest && __builtin_cpu_supports("avx2") != 0; }

#else

bool CanRun(Simd) { return false; }
void AcrossAvx2(const uint8_t*, int, uint8_t*) {}
void DownAvx2(const uint8_t*, const uint8_t*, int, int, uint8_t*) {}
void BothAvx2(const uint8_t*, const uint8_t*, int, uint8_t*) {}

#endif

}  // namespace

void UpsampleAcross(const uint8_t* in, int count, uint8_t* out, Simd simd) {
  if (CanRun(simd)) return AcrossAvx2(in, count, out);
  AcrossScalar(in, count, out);
}

void UpsampleDown(const uint8_t* near, const uint8_t* far, Side far_side, int count, uint8_t* out,
                  Simd simd) {
  const int bias = far_side == Side::kAbove ? 1 : 2;
  if (CanRun(simd)) return DownAvx2(near, far, bias, count, out);
  DownScalar(near, far, bias, count, out);
}

void UpsampleBoth(const uint8_t* near, const uint8_t* far, int count, uint8_t* out, Simd simd) {
  if (CanRun(simd)) return BothAvx2(near, far, count, out);
  BothScalar(near, far, count, out);
}

void RepeatAcross(const uint8_t* in, int count, uint8_t* out) {
  for (ptrdiff_t i = 0; i < count; ++i) std::memset(out + 4 * i, in[i], 4);
}

}  // namespace bulkhead::jpeg
