#pragma once

#include "server/image/image.h"

namespace bulkhead {

// How gray is made of red, green and blue: the weighted sum in units of 2^-15 plus `bias`, its
// fraction cut off. The weights add up to 2^15.
struct LumaWeights {
  int red;
  int green;
  int blue;
  int bias;
};
// 0.299, 0.587, 0.114 as OpenCV's cvtColor rounds them, and as libpng does when it is asked to read
// colour as gray: what imread(path, 0) gives for WebP and for PNG. (libpng does not round the sum.)
inline constexpr LumaWeights kOpenCvLuma{9798, 19235, 3735, 1 << 14};
inline constexpr LumaWeights kLibpngLuma{9797, 19234, 3737, 0};

// The gray of the RGB image `rgb` into `gray`, of the same size; `gray` may be the same memory.
void RgbToGray(const ImageView& rgb, LumaWeights weights, const MutableImageView& gray);

// Swaps the first and third channel of every pixel of a 3-channel image: RGB to BGR and back.
void SwapRedAndBlue(const MutableImageView& image);

}  // namespace bulkhead
