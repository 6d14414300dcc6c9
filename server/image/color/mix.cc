#include "server/image/color/mix.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>

#include "server/image/deterministic_math.h"

namespace bulkhead {
namespace {

constexpr uint32_t kSteps = MixShare::kSteps;
constexpr int kStepBits = 14;
static_assert(kSteps == 1u << kStepBits);
constexpr double kMaxExponent = 700;  // of DeterministicExp
// No try fails more often than half the time: so many never fail one after the other.
constexpr int kMaxTries = 1000;

// In (0, 1], for a logarithm.
double PositiveUnit(SampleRandom& random) { return 1.0 - random.NextUnit(); }

// exp(x) for x ≤ 0; what is too small to count is 0.
double ExpOfNegative(double x) { return x < -kMaxExponent ? 0.0 : DeterministicExp(x); }

// Both variates as logarithms: for a small alpha they are too small for a double.
double DrawByJohnk(SampleRandom& random, double alpha) {
  for (int i = 0; i < kMaxTries; ++i) {
    const double x = DeterministicLog(PositiveUnit(random)) / alpha;
    const double y = DeterministicLog(PositiveUnit(random)) / alpha;
    if (ExpOfNegative(x) + ExpOfNegative(y) > 1.0) continue;
    // e^x / (e^x + e^y)
    return x >= y ? 1.0 / (1.0 + ExpOfNegative(y - x))
                  : ExpOfNegative(x - y) / (1.0 + ExpOfNegative(x - y));
  }
  return 0.5;
}

// Gamma(alpha, 1), alpha > 1.
double DrawGamma(SampleRandom& random, double alpha) {
  const double d = alpha - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (int i = 0; i < kMaxTries; ++i) {
    const double radius = std::sqrt(-2.0 * DeterministicLog(PositiveUnit(random)));
    const double x = radius * DeterministicSinCos(360.0 * random.NextUnit()).cos;
    const double u = PositiveUnit(random);
    const double root = 1.0 + c * x;
    if (root <= 0.0) continue;
    const double v = root * root * root;
    if (DeterministicLog(u) < 0.5 * x * x + d * (1.0 - v + DeterministicLog(v))) return d * v;
  }
  return d;
}

#if defined(__x86_64__)
// Sixteen bytes at a time; returns how many were done. SSE2, which every such CPU has.
size_t MixBlocks(uint8_t* a, const uint8_t* b, size_t count, MixShare share) {
  const auto own = static_cast<int>(share.steps());
  // Pairs of a and b meet pairs of their weights: one multiply-add each.
  const __m128i weights = _mm_set1_epi32((static_cast<int>(kSteps) - own) << 16 | own);
  const __m128i half = _mm_set1_epi32(static_cast<int>(kSteps / 2));
  const __m128i zero = _mm_setzero_si128();
  const auto mix = [&](__m128i pairs) {
    return _mm_srai_epi32(_mm_add_epi32(_mm_madd_epi16(pairs, weights), half), kStepBits);
  };
  size_t done = 0;
  for (; done + 16 <= count; done += 16) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a + done));
    const __m128i y = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + done));
    const __m128i low = _mm_unpacklo_epi8(x, y);
    const __m128i high = _mm_unpackhi_epi8(x, y);
    const __m128i first =
        _mm_packs_epi32(mix(_mm_unpacklo_epi8(low, zero)), mix(_mm_unpackhi_epi8(low, zero)));
    const __m128i second =
        _mm_packs_epi32(mix(_mm_unpacklo_epi8(high, zero)), mix(_mm_unpackhi_epi8(high, zero)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(a + done), _mm_packus_epi16(first, second));
  }
  return done;
}
#else
size_t MixBlocks(uint8_t*, const uint8_t*, size_t, MixShare) { return 0; }
#endif

}  // namespace

double DrawBeta(SampleRandom& random, double alpha) {
  if (alpha <= 1.0) return DrawByJohnk(random, alpha);
  const double a = DrawGamma(random, alpha);
  const double b = DrawGamma(random, alpha);
  return a / (a + b);
}

MixShare::MixShare(double share)
    : steps_(static_cast<uint32_t>(RoundHalfEven(std::clamp(share, 0.0, 1.0) * kSteps))) {}

void MixBytes(uint8_t* a, const uint8_t* b, size_t count, MixShare share, Simd simd) {
  const uint32_t own = share.steps();
  const uint32_t other = kSteps - own;
  for (size_t i = simd != Simd::kScalar ? MixBlocks(a, b, count, share) : 0; i < count; ++i) {
    a[i] = static_cast<uint8_t>((a[i] * own + b[i] * other + kSteps / 2) >> kStepBits);
  }
}

void MixFloats(float* a, const float* b, size_t count, float share) {
  const float other = 1.0f - share;
  for (size_t i = 0; i < count; ++i) a[i] = a[i] * share + b[i] * other;
}

Rect DrawCut(SampleRandom& random, ImageSize size, double share) {
  const int x = static_cast<int>(random.NextBelow(static_cast<uint64_t>(size.width)));
  const int y = static_cast<int>(random.NextBelow(static_cast<uint64_t>(size.height)));
  const double half = 0.5 * std::sqrt(1.0 - share);
  const int half_width = static_cast<int>(half * size.width);
  const int half_height = static_cast<int>(half * size.height);
  Rect rect;
  rect.left = std::max(0, x - half_width);
  rect.top = std::max(0, y - half_height);
  rect.width = std::min(size.width, x + half_width) - rect.left;
  rect.height = std::min(size.height, y + half_height) - rect.top;
  return rect;
}

}  // namespace bulkhead
