#pragma once

#include <cstdint>
#include <string>

#include "bulkhead/batch.h"
#include "server/image/image.h"

namespace bulkhead::tools {

// Whether a tensor's samples look like images: [height, width, channels] or [channels, height,
// width] with 1 or 3 channels (4 only last), of uint8, or of floats; one of them a sample.
bool LooksLikeImages(const Tensor& tensor);

// The same with 2 or 4 channels, a multiple of 3 up to 24, or several images of the usual channels
// one after the other ([images, …]), too, which other outputs may have as well.
bool MayBeImages(const Tensor& tensor);

// Which numbers are drawn black and white; those between are gray.
struct Tones {
  double black = 0;
  double white = 255;
  // They are the smallest and the largest number of the first images: others look different.
  bool stretched = false;
};

// Bytes are drawn as they are. Floats: 0 to 1, -1 to 1 or 0 to 255 where all are within, else from
// the smallest to the largest finite one of the first `samples`.
Tones TonesOf(const Tensor& tensor, uint64_t samples);

// "-2.1 is black and 2.6 white, the smallest and the largest value of the first images"; empty
// where bytes are drawn as they are.
std::string DescribeTones(const Tones& tones);

// The images of a tensor as bytes: pictures to look at, not to compute with. One of several panes
// has them side by side: 3 channels are red, green and blue, of 4 the last one is a pane of its
// own, of a multiple of 3 every three are one; of any other number each is gray. Stacked images are
// panes, too. The tensor must outlive it.
class TensorImages {
 public:
  // Needs MayBeImages.
  TensorImages(const Tensor& tensor, const Tones& tones);

  // Of one pane.
  ImageSize size() const { return {static_cast<int>(height_), static_cast<int>(width_)}; }
  int channels() const { return static_cast<int>(channels_); }
  int panes() const;
  // `image`: of stacked ones.
  uint8_t At(uint64_t sample, int y, int x, int channel, int image = 0) const;
  // Sample `sample` as RGB, its panes from left to right.
  void ToRgb(uint64_t sample, Image& out) const;

 private:
  int PanesOfImage() const;

  const Tensor& tensor_;
  const Tones tones_;
  int64_t height_ = 0;
  int64_t width_ = 0;
  int64_t channels_ = 0;
  int64_t stacked_ = 1;
  // Elements from row to row, pixel to pixel, channel to channel.
  int64_t row_step_ = 0;
  int64_t pixel_step_ = 0;
  int64_t channel_step_ = 0;
};

}  // namespace bulkhead::tools
