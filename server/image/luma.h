#ifndef BULKHEAD_SERVER_IMAGE_LUMA_H_
#define BULKHEAD_SERVER_IMAGE_LUMA_H_

#include <cstdint>

#include "server/image/image.h"

namespace bulkhead {

// Weights of red, green and blue in a gray value, in units of 2^-15; they add up to 2^15.
struct LumaWeights {
  int red;
  int green;
  int blue;
};
// 0.299, 0.587, 0.114 as OpenCV rounds them for cvtColor and as libpng rounds them for reading
// colour as gray: what imread(path, 0) gives for WebP and for PNG.
inline constexpr LumaWeights kOpenCvLuma{9798, 19235, 3735};
inline constexpr LumaWeights kLibpngLuma{9797, 19234, 3737};

// Gray, rounded to nearest, of the RGB image `rgb` into `gray` of the same size.
void RgbToGray(const ImageView& rgb, LumaWeights weights, const MutableImageView& gray);

// Swaps the first and third channel of every pixel of a 3-channel image: RGB to BGR and back.
void SwapRedAndBlue(const MutableImageView& image);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_IMAGE_LUMA_H_
