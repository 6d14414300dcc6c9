#pragma once

#include <cstddef>
#include <vector>

#include "server/image/image.h"

namespace bulkhead {

// Bilinear resizing of float32 images with half-pixel centres and no antialiasing: where cv::resize
// (INTER_LINEAR) and torch's interpolate (align_corners=False) sample. Every result is
//   upper × (1 − v) + lower × v, with upper and lower = left × (1 − u) + right × u,
// computed in that order with a rounding after each step, and u and v as OpenCV has them: the scale
// in double, the place and its share in float32. So the bits are the same on every machine. Tables
// and rows are reused from image to image. Not thread-safe.
class FloatResizer {
 public:
  // Plans to resize images of `in` pixels and `channels` floats a pixel to `out`; no side is 0.
  void Prepare(ImageSize in, size_t channels, ImageSize out);

  // Resizes `image` to `out`, both contiguous and of the prepared sizes, not overlapping.
  void Run(const float* image, float* out);

 private:
  // Where an output column or row samples: at `first` and `next`, by shares of `share`.
  struct Tap {
    int first = 0;
    int next = 0;
    float share = 0;  // of `next`
  };
  struct SourceRow {
    int number = -1;
    std::vector<float> sums;
  };

  static Tap TapAt(int out, int in_extent, int out_extent);
  const float* SumsOf(const float* image, int row);

  ImageSize in_;
  ImageSize out_;
  size_t channels_ = 0;
  std::vector<Tap> columns_;
  SourceRow rows_[2];  // the row with an even number, and the one with an odd one
};

}  // namespace bulkhead
