#include "server/image/color/luma.h"

#include <utility>

namespace bulkhead {

void RgbToGray(const ImageView& rgb, LumaWeights weights, const MutableImageView& gray) {
  for (int y = 0; y < rgb.height; ++y) {
    const uint8_t* in = rgb.row(y);
    uint8_t* out = gray.row(y);
    for (int x = 0; x < rgb.width; ++x, in += 3) {
      out[x] = static_cast<uint8_t>(
          (weights.red * in[0] + weights.green * in[1] + weights.blue * in[2] + weights.bias) >>
          15);
    }
  }
}

void SwapRedAndBlue(const MutableImageView& image) {
  for (int y = 0; y < image.height; ++y) {
    uint8_t* pixel = image.row(y);
    for (int x = 0; x < image.width; ++x, pixel += 3) std::swap(pixel[0], pixel[2]);
  }
}

}  // namespace bulkhead
