#pragma once

#include <cstddef>
#include <cstdint>

#include "server/image/jpeg/header.h"
#include "server/image/simd.h"

namespace bulkhead::jpeg {

// Quantizers by natural order, none above kMaxAc.
struct alignas(32) Dequantizer {
  int16_t factors[kBlockCoefficients];
};

// A block whose last coefficient that is not zero has this number, in the order of the file, or a
// lower one, holds nothing but the 4 × 4 lowest frequencies.
inline constexpr uint8_t kLastOfFour = 9;

// Blocks that stand side by side, one after another in memory: their coefficients in natural order,
// not dequantized, each within kMaxDc or kMaxAc when it is, else samples are undefined; and for
// each block the number, in the order of the file, behind which all coefficients are zero, or
// kLastOfFour where it holds nothing but the 4 × 4 lowest frequencies.
struct BlockRow {
  int16_t* coefficients = nullptr;  // aligned to 32 bytes
  const uint8_t* last = nullptr;
  int count = 0;
};

// Dequantizes the blocks, transforms them to samples by libjpeg's accurate integer DCT (the one of
// Loeffler, Ligtenberg and Moschytz with 13-bit constants: columns, rounded to a quarter, then
// rows, saturated as its SIMD code does it), and writes these, eight rows of 8 × count, to `out`.
// Zeroes the coefficients. False if a value between the passes was so large that implementations
// differ: then the samples are undefined.
bool InverseTransform(const BlockRow& blocks, const Dequantizer& quant, uint8_t* out,
                      ptrdiff_t stride, Simd simd);

}  // namespace bulkhead::jpeg
