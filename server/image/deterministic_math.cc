#include "server/image/deterministic_math.h"

#include <bit>

namespace bulkhead {
namespace {

// ln 2 in two parts: the upper has 21 trailing zero bits, so that a small integer times it is
// exact; the lower is the rest.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;
constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;
constexpr double kRadiansPerDegree = 0x1.1df46a2529d39p-6;

}  // namespace

double DeterministicLog(double x) {
  // x = m · 2^e with m in [sqrt(1/2), sqrt(2)).
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
  if (m >= kSqrt2) {
    m *= 0.5;
    ++exponent;
  }
  // log m = 2 · atanh(s) = 2 · (s + s³/3 + s⁵/5 + …), |s| < 0.172.
  const double s = (m - 1.0) / (m + 1.0);
  const double square = s * s;
  double sum = 0.0;
  for (int k = 25; k >= 3; k -= 2) sum = (sum + 1.0 / k) * square;
  const double log_m = 2.0 * (s + s * sum);
  return exponent * kLn2High + (log_m + exponent * kLn2Low);
}

double DeterministicExp(double x) {
  // x = k · ln 2 + r with |r| ≤ ln(2)/2.
  const double scaled = x * kInverseLn2;
  const int k = static_cast<int>(scaled >= 0 ? scaled + 0.5 : scaled - 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  // Taylor: 1 + r(1 + r/2(1 + r/3(1 + …))).
  double sum = 1.0;
  for (int n = 17; n >= 1; --n) sum = 1.0 + r / n * sum;
  const double power = std::bit_cast<double>(static_cast<uint64_t>(1023 + k) << 52);
  return sum * power;
}

SinCos DeterministicSinCos(double degrees) {
  // degrees = 90 · q + rest with |rest| ≤ 45.
  const double quarters = degrees / 90.0;
  const auto q = static_cast<int64_t>(quarters >= 0 ? quarters + 0.5 : quarters - 0.5);
  const double x = (degrees - 90.0 * static_cast<double>(q)) * kRadiansPerDegree;
  const double square = x * x;
  // Taylor: x(1 − x²/(2·3)(1 − x²/(4·5)(…))) and 1 − x²/(1·2)(1 − x²/(3·4)(…)).
  double sin = 1.0;
  double cos = 1.0;
  for (int n = 18; n >= 2; n -= 2) {
    sin = 1.0 - square / (n * (n + 1)) * sin;
    cos = 1.0 - square / (n * (n - 1)) * cos;
  }
  sin *= x;
  const SinCos turned[] = {{sin, cos}, {cos, -sin}, {-sin, -cos}, {-cos, sin}};
  return turned[q & 3];
}

int64_t RoundHalfEven(double x) {
  const auto floor = static_cast<int64_t>(x);
  const double rest = x - static_cast<double>(floor);
  const bool up = rest > 0.5 || (rest == 0.5 && floor % 2 != 0);
  return up ? floor + 1 : floor;
}

}  // namespace bulkhead
