#pragma once

#include <cstdint>

namespace bulkhead {

// Natural logarithm of a positive, normal number, and the exponential of |x| ≤ 700, within 2 units
// in the last place. Plain additions, multiplications and divisions in a fixed order: the same bits
// on every machine, which libm's, chosen by CPU, are not.
double DeterministicLog(double x);
double DeterministicExp(double x);

// Sine and cosine of an angle in degrees, |degrees| ≤ 10^9, in the same way and as exact (relative
// to 1); exactly 0 and ±1 at multiples of 90.
struct SinCos {
  double sin;
  double cos;
};
SinCos DeterministicSinCos(double degrees);

// `x` ≥ 0, below 2^52, rounded to the nearest integer, halves to the even one (Python's round).
int64_t RoundHalfEven(double x);

}  // namespace bulkhead
