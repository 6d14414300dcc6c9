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

// Colour images whose channels were joined.
bool IsSeveral(int64_t channels) { return channels > 3 && channels <= 24 && channels % 3 == 0; }

bool RareChannelsLast(const std::vector<int64_t>& shape) {
  return shape[3] == 2 || IsSeveral(shape[3]);
}

bool RareChannelsFirst(const std::vector<int64_t>& shape) {
  return IsOneOf(shape[1], {2, 4}) || IsSeveral(shape[1]);
}

bool IsStack(const Tensor& tensor) { return tensor.shape.size() == 5 && tensor.shape[1] > 0; }

// The extents of a tensor of one image a sample; of stacked ones of one of them.
std::vector<int64_t> ShapeOfOne(const Tensor& tensor) {
  std::vector<int64_t> shape = tensor.shape;
  if (IsStack(tensor)) shape.erase(shape.begin() + 1);
  return shape;
}

// Whether a sample has three extents of numbers that can be drawn.
bool IsDrawable(const Tensor& tensor) {
  if (tensor.packing == Packing::kRows) return false;  // some samples have several, some none
  return (tensor.shape.size() == 4 || IsStack(tensor)) &&
         (tensor.dtype == ElementType::kUint8 || IsFloat(DTypeOf(tensor)));
}

bool HasSides(const std::vector<int64_t>& shape, bool last) {
  return IsSide(shape[last ? 1 : 2]) && IsSide(shape[last ? 2 : 3]);
}

bool IsUsual(const std::vector<int64_t>& shape) {
  if (ChannelsLast(shape)) return HasSides(shape, true);
  return ChannelsFirst(shape) && HasSides(shape, false);
}

// The channels of pane `pane` of three or one, of `channels`.
int FirstChannel(int channels, int pane) {
  return channels % 3 == 0 ? pane * 3 : channels == 4 ? pane * 3 : pane;
}

bool IsColour(int channels, int pane) { return channels % 3 == 0 || (channels == 4 && pane == 0); }

}  // namespace

bool LooksLikeImages(const Tensor& tensor) {
  return IsDrawable(tensor) && !IsStack(tensor) && IsUsual(tensor.shape);
}

bool MayBeImages(const Tensor& tensor) {
  if (!IsDrawable(tensor)) return false;
  if (IsUsual(ShapeOfOne(tensor))) return true;
  if (IsStack(tensor)) return false;
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
  const std::vector<int64_t> shape = ShapeOfOne(tensor);
  const bool usual = IsUsual(shape);
  if (IsStack(tensor)) stacked_ = tensor.shape[1];
  if (usual ? ChannelsLast(shape) : RareChannelsLast(shape) && HasSides(shape, true)) {
    height_ = shape[1], width_ = shape[2], channels_ = shape[3];
    row_step_ = width_ * channels_, pixel_step_ = channels_, channel_step_ = 1;
  } else {
    channels_ = shape[1], height_ = shape[2], width_ = shape[3];
    row_step_ = width_, pixel_step_ = 1, channel_step_ = height_ * width_;
  }
}

int TensorImages::panes() const { return static_cast<int>(stacked_) * PanesOfImage(); }

int TensorImages::PanesOfImage() const {
  return channels() % 3 == 0 ? channels() / 3 : channels() == 4 ? 2 : channels();
}

uint8_t TensorImages::At(uint64_t sample, int y, int x, int channel, int image) const {
  const int64_t before = static_cast<int64_t>(sample) * stacked_ + image;
  const int64_t at = before * height_ * width_ * channels_ + y * row_step_ + x * pixel_step_ +
                     channel * channel_step_;
  const double reach = tones_.white > tones_.black ? tones_.white - tones_.black : 1;
  const double tone = (ElementAt(tensor_, static_cast<uint64_t>(at)) - tones_.black) * 255 / reach;
  return std::isfinite(tone) ? static_cast<uint8_t>(std::lround(std::clamp(tone, 0.0, 255.0))) : 0;
}

void TensorImages::ToRgb(uint64_t sample, Image& out) const {
  const MutableImageView view =
      out.Reshape({static_cast<int>(height_), static_cast<int>(width_) * panes()}, 3);
  for (int y = 0; y < view.height; ++y) {
    for (int pane = 0; pane < panes(); ++pane) {
      const int image = pane / PanesOfImage();
      const int first = FirstChannel(channels(), pane % PanesOfImage());
      const bool colour = IsColour(channels(), pane % PanesOfImage());
      uint8_t* to = view.row(y) + pane * static_cast<int>(width_) * 3;
      for (int x = 0; x < width_; ++x) {
        for (int c = 0; c < 3; ++c) *to++ = At(sample, y, x, first + (colour ? c : 0), image);
      }
    }
  }
}

}  // namespace bulkhead::tools
