#pragma once

#include <cstdint>

#include "server/image/pixel_format.h"
#include "server/image/simd.h"

namespace bulkhead::jpeg {

// A row of luma and chroma samples, one of each for each pixel.
struct YccRow {
  const uint8_t* y = nullptr;
  const uint8_t* cb = nullptr;
  const uint8_t* cr = nullptr;
};

// Factors of the equations in units of 2^-16, rounded.
inline constexpr int kCrToRed = 91881;    // 1.402
inline constexpr int kCbToGreen = 22554;  // 0.34414
inline constexpr int kCrToGreen = 46802;  // 0.71414
inline constexpr int kCbToBlue = 116130;  // 1.772
inline constexpr int kHalf = 1 << 15;

// Converts `count` pixels by JFIF's equations, rounded as libjpeg does it, to `out`, in any format
// but gray. Reads up to kRowPadding bytes beyond the samples, writes nothing beyond the pixels.
void ConvertRow(const YccRow& row, int count, PixelFormat format, uint8_t* out, Simd simd);

}  // namespace bulkhead::jpeg
