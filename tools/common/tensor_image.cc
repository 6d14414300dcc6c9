#include "tools/common/tensor_image.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/base/element_type.h"
#include "tools/common/tensor_stats.h"
#include "tools/common/tensor_type.h"

namespace bulkhead::tools {
namespace {

constexpr int64_t kMaxSide = 1 << 14;

bool IsSide(int64_t extent) { return extent > 1 && extent <= kMaxSide; }

bool IsOneOf(int64_t channels, std::initializer_list<int64_t> numbers) {
  return std::count(numbers.begin(), numbers.end(), channels) > 0;
}

bool ChannelsLast(const std::vector<int64_t>& shape) { return IsOneOf(shape[3], {1, 3, 4}); }

bool ChannelsFirst(const std::vector<int64_t>& shape) { return IsOneOf(shape[1], {1, 3}); }

bool RareChannelsLast(const std::vector<int64_t>& shape) { return IsOneOf(shape[3], {2, 9}); }

bool RareChannelsFirst(const std::vector<int64_t>& shape) { return IsOneOf(shape[1], {2, 4, 9}); }

// Whether a sample has three extents of numbers that can be drawn.
bool IsDrawable(const Tensor& tensor) {
  if (tensor.packing == Packing::kRows) return false;  // some samples have several, some none
  return tensor.shape.size() == 4 &&
         (tensor.dtype == ElementType::kUint8 || IsFloat(DTypeOf(tensor)));
}

bool HasSides(const std::vector<int64_t>& shape, bool last) {
  return IsSide(shape[last ? 1 : 2]) && IsSide(shape[last ? 2 : 3]);
}

// The channels of pane `pane` of three or one, of `channels`.
int FirstChannel(int channels, int pane) {
  return channels % 3 == 0 ? pane * 3 : channels == 4 ? pane * 3 : pane;
}

bool IsColour(int channels, int pane) { return channels % 3 == 0 || (channels == 4 && pane == 0); }

}  // namespace

bool LooksLikeImages(const Tensor& tensor) {
  if (!IsDrawable(tensor)) return false;
  if (ChannelsLast(tensor.shape)) return HasSides(tensor.shape, true);
  return ChannelsFirst(tensor.shape) && HasSides(tensor.shape, false);
}

bool MayBeImages(const Tensor& tensor) {
  if (!IsDrawable(tensor)) return false;
  if (LooksLikeImages(tensor)) return true;
  if (RareChannelsLast(tensor.shape)) return HasSides(tensor.shape, true);
  return RareChannelsFirst(tensor.shape) && HasSides(tensor.shape, false);
}

Tones TonesOf(const Tensor& tensor, uint64_t samples) {
  if (!IsFloat(DTypeOf(tensor))) return {};
  const TensorStats stats = ComputeStats(tensor, samples);
  for (const Tones& usual : {Tones{0, 1}, Tones{-1, 1}, Tones{0, 255}}) {
    if (stats.min >= usual.black && stats.max <= usual.white) return usual;
  }
  return {stats.min, stats.max, true};
}

std::string DescribeTones(const Tones& tones) {
  if (tones.black == 0 && tones.white == 255 && !tones.stretched) return "";
  return absl::StrFormat(
      "%.4g is black and %.4g white%s", tones.black, tones.white,
      tones.stretched ? ", the smallest and the largest value of the first images" : "");
}

TensorImages::TensorImages(const Tensor& tensor, const Tones& tones)
    : tensor_(tensor), tones_(tones) {
  const std::vector<int64_t>& shape = tensor.shape;
  const bool usual = LooksLikeImages(tensor);
  if (usual ? ChannelsLast(shape) : RareChannelsLast(shape) && HasSides(shape, true)) {
    height_ = shape[1], width_ = shape[2], channels_ = shape[3];
    row_step_ = width_ * channels_, pixel_step_ = channels_, channel_step_ = 1;
  } else {
    channels_ = shape[1], height_ = shape[2], width_ = shape[3];
    row_step_ = width_, pixel_step_ = 1, channel_step_ = height_ * width_;
  }
}

int TensorImages::panes() const {
  return channels() % 3 == 0 ? channels() / 3 : channels() == 4 ? 2 : channels();
}

uint8_t TensorImages::At(uint64_t sample, int y, int x, int channel) const {
  const int64_t at = static_cast<int64_t>(sample) * height_ * width_ * channels_ + y * row_step_ +
                     x * pixel_step_ + channel * channel_step_;
  const double reach = tones_.white > tones_.black ? tones_.white - tones_.black : 1;
  const double tone = (ElementAt(tensor_, static_cast<uint64_t>(at)) - tones_.black) * 255 / reach;
  return std::isfinite(tone) ? static_cast<uint8_t>(std::lround(std::clamp(tone, 0.0, 255.0))) : 0;
}

void TensorImages::ToRgb(uint64_t sample, Image& image) const {
  const MutableImageView view =
      image.Reshape({static_cast<int>(height_), static_cast<int>(width_) * panes()}, 3);
  for (int y = 0; y < view.height; ++y) {
    for (int pane = 0; pane < panes(); ++pane) {
      const int first = FirstChannel(channels(), pane);
      const bool colour = IsColour(channels(), pane);
      uint8_t* to = view.row(y) + pane * static_cast<int>(width_) * 3;
      for (int x = 0; x < width_; ++x) {
        for (int c = 0; c < 3; ++c) *to++ = At(sample, y, x, first + (colour ? c : 0));
      }
    }
  }
}

}  // namespace bulkhead::tools
