#include "tools/replay/contact_sheet.h"

#include <algorithm>
#include <cmath>

#include "server/image/encode.h"
#include "tools/replay/tensor_stats.h"

namespace bulkhead::tools {
namespace {

constexpr uint64_t kMaxPixels = 32 << 20;
constexpr int64_t kMaxSide = 1 << 14;
constexpr int64_t kGap = 2;
constexpr uint8_t kBackground = 40;

// How images lie in a tensor: elements from pixel to pixel, row to row, channel to channel.
struct ImageForm {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  int64_t row_step = 0;
  int64_t pixel_step = 0;
  int64_t channel_step = 0;
};

ImageForm FormOf(const Tensor& tensor) {
  const std::vector<int64_t>& shape = tensor.shape;
  if (shape.size() != 4) return {};
  if (shape[3] == 1 || shape[3] == 3 || shape[3] == 4) {
    return {shape[1], shape[2], shape[3], shape[2] * shape[3], shape[3], 1};
  }
  if (shape[1] == 1 || shape[1] == 3) {
    return {shape[2], shape[3], shape[1], shape[3], 1, shape[2] * shape[3]};
  }
  return {};
}

bool IsFloat(ElementType type) {
  return type == ElementType::kFloat16 || type == ElementType::kBfloat16 ||
         type == ElementType::kFloat32 || type == ElementType::kFloat64;
}

// Maps elements to bytes.
class Tone {
 public:
  Tone(const Tensor& tensor, uint64_t samples) {
    if (!IsFloat(tensor.dtype)) return;
    const TensorStats stats = ComputeStats(tensor, samples);
    base_ = stats.min;
    scale_ = stats.max > stats.min ? 255 / (stats.max - stats.min) : 1;
  }
  uint8_t Byte(double value) const {
    const double scaled = (value - base_) * scale_;
    return std::isfinite(scaled) ? static_cast<uint8_t>(std::clamp(scaled, 0.0, 255.0)) : 0;
  }

 private:
  double base_ = 0;
  double scale_ = 1;
};

}  // namespace

bool LooksLikeImages(const Tensor& tensor) {
  const ImageForm form = FormOf(tensor);
  return (tensor.dtype == ElementType::kUint8 || IsFloat(tensor.dtype)) && form.height > 1 &&
         form.width > 1 && form.height <= kMaxSide && form.width <= kMaxSide;
}

absl::StatusOr<std::string> ContactSheetPng(const Tensor& tensor, uint64_t samples) {
  const ImageForm form = FormOf(tensor);
  const int64_t cell_height = form.height + kGap;
  const int64_t cell_width = form.width + kGap;
  const auto most =
      std::max<uint64_t>(1, kMaxPixels / static_cast<uint64_t>(cell_height * cell_width));
  const auto count = static_cast<int64_t>(std::min(samples, most));
  int64_t columns = 1;
  while (columns * columns < count) ++columns;
  const int64_t rows = (count + columns - 1) / columns;
  const int64_t width = columns * cell_width + kGap;
  const int64_t height = rows * cell_height + kGap;
  std::string pixels(static_cast<size_t>(width * height * form.channels),
                     static_cast<char>(kBackground));
  const Tone tone(tensor, samples);
  const int64_t sample_elements = form.height * form.width * form.channels;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t top = kGap + i / columns * cell_height;
    const int64_t left = kGap + i % columns * cell_width;
    for (int64_t y = 0; y < form.height; ++y) {
      char* to = pixels.data() + ((top + y) * width + left) * form.channels;
      for (int64_t x = 0; x < form.width; ++x) {
        const int64_t at = i * sample_elements + y * form.row_step + x * form.pixel_step;
        for (int64_t c = 0; c < form.channels; ++c) {
          *to++ = static_cast<char>(tone.Byte(ElementAt(tensor, at + c * form.channel_step)));
        }
      }
    }
  }
  const ImageView view{reinterpret_cast<const uint8_t*>(pixels.data()), static_cast<int>(height),
                       static_cast<int>(width), static_cast<int>(form.channels),
                       static_cast<size_t>(width * form.channels)};
  return EncodePng(view);
}

}  // namespace bulkhead::tools
