#include "tools/common/tensor_image.h"

#include <algorithm>
#include <cmath>

#include "server/base/element_type.h"
#include "tools/common/tensor_stats.h"
#include "tools/common/tensor_type.h"

namespace bulkhead::tools {
namespace {

constexpr int64_t kMaxSide = 1 << 14;

bool IsSide(int64_t extent) { return extent > 1 && extent <= kMaxSide; }

bool ChannelsLast(const std::vector<int64_t>& shape) {
  return shape[3] == 1 || shape[3] == 3 || shape[3] == 4;
}

bool ChannelsFirst(const std::vector<int64_t>& shape) { return shape[1] == 1 || shape[1] == 3; }

}  // namespace

bool LooksLikeImages(const Tensor& tensor) {
  const std::vector<int64_t>& shape = tensor.shape;
  if (tensor.packing == Packing::kRows) return false;  // some samples have several, some none
  if (shape.size() != 4 || (tensor.dtype != ElementType::kUint8 && !IsFloat(DTypeOf(tensor)))) {
    return false;
  }
  if (ChannelsLast(shape)) return IsSide(shape[1]) && IsSide(shape[2]);
  return ChannelsFirst(shape) && IsSide(shape[2]) && IsSide(shape[3]);
}

TensorImages::TensorImages(const Tensor& tensor, uint64_t samples) : tensor_(tensor) {
  const std::vector<int64_t>& shape = tensor.shape;
  if (ChannelsLast(shape)) {
    height_ = shape[1], width_ = shape[2], channels_ = shape[3];
    row_step_ = width_ * channels_, pixel_step_ = channels_, channel_step_ = 1;
  } else {
    channels_ = shape[1], height_ = shape[2], width_ = shape[3];
    row_step_ = width_, pixel_step_ = 1, channel_step_ = height_ * width_;
  }
  if (!IsFloat(DTypeOf(tensor))) return;
  const TensorStats stats = ComputeStats(tensor, samples);
  base_ = stats.min;
  scale_ = stats.max > stats.min ? 255 / (stats.max - stats.min) : 1;
}

uint8_t TensorImages::At(uint64_t sample, int y, int x, int channel) const {
  const int64_t at = static_cast<int64_t>(sample) * height_ * width_ * channels_ + y * row_step_ +
                     x * pixel_step_ + channel * channel_step_;
  const double scaled = (ElementAt(tensor_, static_cast<uint64_t>(at)) - base_) * scale_;
  return std::isfinite(scaled) ? static_cast<uint8_t>(std::clamp(scaled, 0.0, 255.0)) : 0;
}

void TensorImages::ToRgb(uint64_t sample, Image& image) const {
  const MutableImageView view = image.Reshape(size(), 3);
  for (int y = 0; y < view.height; ++y) {
    for (int x = 0; x < view.width; ++x) {
      for (int c = 0; c < 3; ++c) view.row(y)[x * 3 + c] = At(sample, y, x, channels_ < 3 ? 0 : c);
    }
  }
}

}  // namespace bulkhead::tools
