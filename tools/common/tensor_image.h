#ifndef BULKHEAD_TOOLS_COMMON_TENSOR_IMAGE_H_
#define BULKHEAD_TOOLS_COMMON_TENSOR_IMAGE_H_

#include <cstdint>

#include "bulkhead/batch.h"
#include "server/image/image.h"

namespace bulkhead::tools {

// Whether a tensor's samples look like images: [height, width, channels] or [channels, height,
// width] with 1 or 3 channels (4 only last), of uint8, or of floats; one of them a sample.
bool LooksLikeImages(const Tensor& tensor);

// The images of a tensor as bytes. Floats are stretched so that the smallest is black and the
// largest white, over all samples: a picture to look at, not to compute with. The tensor must
// outlive it.
class TensorImages {
 public:
  // Of the first `samples`. Needs LooksLikeImages and samples ≥ 1.
  TensorImages(const Tensor& tensor, uint64_t samples);

  ImageSize size() const { return {static_cast<int>(height_), static_cast<int>(width_)}; }
  int channels() const { return static_cast<int>(channels_); }
  uint8_t At(uint64_t sample, int y, int x, int channel) const;
  // Sample `sample` as RGB: gray three times, without what there is of alpha.
  void ToRgb(uint64_t sample, Image& image) const;

 private:
  const Tensor& tensor_;
  int64_t height_ = 0;
  int64_t width_ = 0;
  int64_t channels_ = 0;
  // Elements from row to row, pixel to pixel, channel to channel.
  int64_t row_step_ = 0;
  int64_t pixel_step_ = 0;
  int64_t channel_step_ = 0;
  // byte = (element − base) × scale
  double base_ = 0;
  double scale_ = 1;
};

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_COMMON_TENSOR_IMAGE_H_
