#include "server/image/color/blur.h"

#include <algorithm>

#include "server/image/deterministic_math.h"

namespace bulkhead {
namespace {

// DeterministicExp's bound; smaller weights are 0 in float32 long before.
constexpr double kLargestExponent = 700.0;

// The pixel 0 … `extent` − 1 that is at `i` when the image is mirrored about its outermost pixels.
int Mirrored(int i, int extent) {
  if (extent == 1) return 0;
  while (i < 0 || i >= extent) i = i < 0 ? -i : 2 * (extent - 1) - i;
  return i;
}

// What Blurrer needs of the scratch memory: rows of floats, each `row_floats` long.
class RowBlurrer {
 public:
  RowBlurrer(const GaussianKernel& kernel, const MutableImageView& image, ScratchBuffer& scratch)
      : kernel_(kernel),
        image_(image),
        row_floats_(image.row_bytes()),
        margin_floats_(static_cast<size_t>(kernel.radius()) * image.channels),
        held_rows_(std::min(2 * kernel.radius() + 1, image.height)) {
    const size_t floats = (held_rows_ + 1) * row_floats_ + row_floats_ + 2 * margin_floats_;
    held_ = reinterpret_cast<float*>(scratch.Resize(floats * sizeof(float)));
    sum_ = held_ + held_rows_ * row_floats_;
    padded_ = sum_ + row_floats_;
  }

  // Blurs row y of the image along itself and holds the result.
  void Hold(int y) {
    Pad(image_.row(y));
    float* out = Held(y);
    const float* middle = padded_ + margin_floats_;
    std::fill(out, out + row_floats_, 0.0f);
    for (int d = kernel_.radius(); d > 0; --d) {
      const size_t offset = static_cast<size_t>(d) * image_.channels;
      Add(kernel_.weight(d), middle - offset, middle + offset, out);
    }
    for (size_t i = 0; i < row_floats_; ++i) out[i] += kernel_.weight(0) * middle[i];
  }

  // Replaces row y of the image by the held rows, blurred across.
  void Write(int y) {
    std::fill(sum_, sum_ + row_floats_, 0.0f);
    for (int d = kernel_.radius(); d > 0; --d) {
      Add(kernel_.weight(d), Held(Mirrored(y - d, image_.height)),
          Held(Mirrored(y + d, image_.height)), sum_);
    }
    const float* middle = Held(y);
    const float* sum = sum_;
    uint8_t* __restrict out = image_.row(y);
    const float weight = kernel_.weight(0);
    const size_t count = row_floats_;
    for (size_t i = 0; i < count; ++i) {
      const float rounded = sum[i] + weight * middle[i] + 0.5f;
      out[i] = static_cast<uint8_t>(static_cast<int>(rounded < 255.0f ? rounded : 255.0f));
    }
  }

 private:
  float* Held(int y) const { return held_ + static_cast<size_t>(y % held_rows_) * row_floats_; }

  void Add(float weight, const float* a, const float* b, float* __restrict sum) const {
    for (size_t i = 0; i < row_floats_; ++i) sum[i] += weight * (a[i] + b[i]);
  }

  void Pad(const uint8_t* row) {
    const int channels = image_.channels;
    for (size_t i = 0; i < row_floats_; ++i) padded_[margin_floats_ + i] = row[i];
    for (int d = 1; d <= kernel_.radius(); ++d) {
      const uint8_t* left = row + static_cast<size_t>(Mirrored(-d, image_.width)) * channels;
      const uint8_t* right =
          row + static_cast<size_t>(Mirrored(image_.width - 1 + d, image_.width)) * channels;
      float* to_left = padded_ + margin_floats_ - static_cast<size_t>(d) * channels;
      float* to_right = padded_ + margin_floats_ + row_floats_ + (d - 1) * channels;
      for (int c = 0; c < channels; ++c) {
        to_left[c] = left[c];
        to_right[c] = right[c];
      }
    }
  }

  const GaussianKernel& kernel_;
  const MutableImageView& image_;
  const size_t row_floats_;
  const size_t margin_floats_;
  const int held_rows_;
  float* held_;    // rows blurred along themselves; row y at y modulo held_rows_
  float* sum_;     // one row
  float* padded_;  // one row with its mirrored margins
};

}  // namespace

GaussianKernel::GaussianKernel(int width, double sigma) : radius_(width / 2) {
  std::array<double, kMaxWidth / 2 + 1> density;
  double sum = 0;
  for (int d = radius_; d >= 0; --d) {
    const double distance = d / sigma;
    const double exponent = 0.5 * distance * distance;
    density[d] = exponent < kLargestExponent ? DeterministicExp(-exponent) : 0.0;
    sum += d == 0 ? density[d] : 2 * density[d];
  }
  for (int d = 0; d <= radius_; ++d) weights_[d] = static_cast<float>(density[d] / sum);
}

void GaussianBlur(const GaussianKernel& kernel, const MutableImageView& image,
                  ScratchBuffer& scratch) {
  if (kernel.radius() == 0) return;
  RowBlurrer blurrer(kernel, image, scratch);
  int held = 0;
  for (int y = 0; y < image.height; ++y) {
    // Rows are held before they are overwritten: the last one that row y needs lies below it, and
    // mirrored ones lie between.
    const int needed = std::min(y + kernel.radius() + 1, image.height);
    for (; held < needed; ++held) blurrer.Hold(held);
    blurrer.Write(y);
  }
}

}  // namespace bulkhead
