#pragma once

#include <array>

#include "server/image/image.h"

namespace bulkhead {

// The weights of a Gaussian blur along one side, as torchvision computes them: the density at whole
// distances from the middle, divided by its sum.
class GaussianKernel {
 public:
  static constexpr int kMaxWidth = 255;

  // `width`: odd, 1 to kMaxWidth. `sigma` > 0, in pixels.
  GaussianKernel(int width, double sigma);

  int radius() const { return radius_; }
  // The weight at `distance` from the middle, 0 to radius().
  float weight(int distance) const { return weights_[distance]; }

 private:
  int radius_;
  std::array<float, kMaxWidth / 2 + 1> weights_;
};

// Blurs in place, any number of channels: along rows, then along columns, in float32, weights added
// from the outside to the middle; rounded to the nearest integer. Beyond the border the image is
// mirrored about its outermost pixels, as often as needed (torchvision refuses images that are not
// larger than the radius). `scratch` holds the rows under the kernel.
void GaussianBlur(const GaussianKernel& kernel, const MutableImageView& image,
                  ScratchBuffer& scratch);

}  // namespace bulkhead
