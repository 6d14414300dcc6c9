#ifndef BULKHEAD_SERVER_IMAGE_JPEG_IDCT_AVX2_H_
#define BULKHEAD_SERVER_IMAGE_JPEG_IDCT_AVX2_H_

#include <cstddef>
#include <cstdint>

#include "server/image/jpeg/idct.h"

namespace bulkhead::jpeg {

// Largest value between the two passes with which no sum of two of them leaves 16 bits.
inline constexpr int kMaxBetween = 16383;

// Whether this machine has AVX2.
bool CanTransformAvx2();

// InverseTransform, two blocks at a time. Only where CanTransformAvx2.
bool InverseTransformAvx2(const BlockRow& blocks, const Dequantizer& quant, uint8_t* out,
                          ptrdiff_t stride);

}  // namespace bulkhead::jpeg

#endif  // BULKHEAD_SERVER_IMAGE_JPEG_IDCT_AVX2_H_
