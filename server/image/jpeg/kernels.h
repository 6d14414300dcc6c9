#pragma once

#include <cstddef>
#include <cstdint>

#include "server/image/jpeg/color_convert.h"
#include "server/image/jpeg/idct.h"
#include "server/image/pixel_format.h"
#include "server/image/simd.h"

namespace bulkhead::jpeg {

// Largest value between the two passes of the transform with which no sum of two of them leaves 16
// bits.
inline constexpr int kMaxBetween = 16383;

// The decoder's inner loops in vector instructions: those of idct.h, upsample.h and
// color_convert.h, which otherwise use their scalar twins. Written once, in the .inc files, over
// the vectors that lanes_avx2.h and lanes_avx512.h define, and compiled for each.
struct Kernels {
  bool (*inverse_transform)(const BlockRow& blocks, const Dequantizer& quant, uint8_t* out,
                            ptrdiff_t stride);
  void (*upsample_across)(const uint8_t* in, int count, uint8_t* out);
  // `bias`: the number that is added before a quarter is cut off.
  void (*upsample_down)(const uint8_t* near, const uint8_t* far, int bias, int count, uint8_t* out);
  void (*upsample_both)(const uint8_t* near, const uint8_t* far, int count, uint8_t* out);
  void (*convert_row)(const YccRow& row, int count, PixelFormat format, uint8_t* out);
};

#if defined(__x86_64__)
extern const Kernels kKernelsAvx2;
extern const Kernels kKernelsAvx512;
#endif

// The kernels for this machine; null: use the scalar twins.
inline const Kernels* KernelsFor(Simd simd) {
#if defined(__x86_64__)
  if (UseAvx512(simd)) return &kKernelsAvx512;
  if (UseAvx2(simd)) return &kKernelsAvx2;
#endif
  (void)simd;
  return nullptr;
}

}  // namespace bulkhead::jpeg
