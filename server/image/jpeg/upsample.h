#pragma once

#include <cstdint>

#include "server/image/simd.h"

// Rows of chroma samples to rows of as many as the luma has: libjpeg's "fancy" upsampling, which
// weighs the nearer sample by 3/4 and the farther one by 1/4 in each direction, with its rounding.
// `count` is that of chroma samples. At the edges of an image its outermost samples must stand once
// more, in in[-1] or in[count]: libjpeg's rules for the edges come to that.
//
// What is read may reach kRowPadding bytes beyond the samples, what is written kRowPadding bytes
// beyond the results.
namespace bulkhead::jpeg {

inline constexpr int kRowPadding = 64;

// Twice as many: 2 × count.
void UpsampleAcross(const uint8_t* in, int count, uint8_t* out, Simd simd);

// The row of the output beside `near`, on the side of the row `far`.
enum class Side { kAbove, kBelow };
void UpsampleDown(const uint8_t* near, const uint8_t* far, Side far_side, int count, uint8_t* out,
                  Simd simd);

// Both: 2 × count.
void UpsampleBoth(const uint8_t* near, const uint8_t* far, int count, uint8_t* out, Simd simd);

// Each sample four times, as libjpeg does it: 4 × count.
void RepeatAcross(const uint8_t* in, int count, uint8_t* out);

}  // namespace bulkhead::jpeg
