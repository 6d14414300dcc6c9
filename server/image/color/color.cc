#include "server/image/color/color.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/image/color/pixel_ops.h"

namespace bulkhead {
namespace {

// Pixels of a row with their channels apart, so that arithmetic is done several pixels at a time.
struct RgbBlock {
  static constexpr int kPixels = 128;
  float r[kPixels];
  float g[kPixels];
  float b[kPixels];

  void Load(const uint8_t* pixels, int count) {
    for (int i = 0; i < count; ++i, pixels += 3) {
      r[i] = pixels[0];
      g[i] = pixels[1];
      b[i] = pixels[2];
    }
  }
  // The values must lie in 0 … 255; fractions are cut off.
  void Store(uint8_t* pixels, int count) const {
    for (int i = 0; i < count; ++i, pixels += 3) {
      pixels[0] = static_cast<uint8_t>(static_cast<int>(r[i]));
      pixels[1] = static_cast<uint8_t>(static_cast<int>(g[i]));
      pixels[2] = static_cast<uint8_t>(static_cast<int>(b[i]));
    }
  }
};

// Calls change(block, pixels in it) for all pixels, a part of a row at a time.
template <typename Change>
void ForBlocks(const MutableImageView& image, Change change) {
  RgbBlock block;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; x += RgbBlock::kPixels) {
      uint8_t* pixels = image.row(y) + static_cast<size_t>(x) * 3;
      const int count = std::min(RgbBlock::kPixels, image.width - x);
      block.Load(pixels, count);
      change(block, count);
      block.Store(pixels, count);
    }
  }
}

// A whole number.
float GrayOf(float r, float g, float b) {
  return static_cast<float>(static_cast<int>(0.2989f * r + 0.587f * g + 0.114f * b));
}

float Clamp(float x) {
  x = x < 0.0f ? 0.0f : x;
  return x > 255.0f ? 255.0f : x;
}

double MeanGray(const MutableImageView& image) {
  uint64_t sum = 0;
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* pixel = image.row(y);
    uint64_t row_sum = 0;
    if (image.channels == 1) {
      for (int x = 0; x < image.width; ++x) row_sum += pixel[x];
    } else {
      for (int x = 0; x < image.width; ++x, pixel += 3) {
        row_sum += static_cast<int>(GrayOf(pixel[0], pixel[1], pixel[2]));
      }
    }
    sum += row_sum;
  }
  return static_cast<double>(sum) / (static_cast<double>(image.height) * image.width);
}

// Hue as a sixth of the circle, −1 to 5, of a pixel whose largest value is `max` and whose smallest
// is `max` − `range`. Weights of 0 and 1 instead of branches: several pixels at a time.
float HueOf(float r, float g, float b, float max, float range) {
  const float red = max == r ? 1.0f : 0.0f;
  const float green = (max == g ? 1.0f : 0.0f) * (1.0f - red);
  const float blue = 1.0f - red - green;
  const float divisor = range + (range == 0.0f ? 1.0f : 0.0f);
  const float difference = red * (g - b) + green * (b - r) + blue * (r - g);
  return difference / divisor + (2.0f * green + 4.0f * blue);
}

// How much of a pixel's range the channel lacks whose place is `offset` sixths before the hue's
// origin: at most 1, none when negative. `hue` lies between −4 and 8; once around the circle is 6,
// and where that is miscounted by rounding, both counts mean none.
float LackOf(float hue, float offset) {
  const float k = hue + offset;
  const float turns = static_cast<float>(static_cast<int>((k + 6.0f) * (1.0f / 6.0f))) - 1.0f;
  const float rising = k - 6.0f * turns;
  const float falling = 4.0f - rising;
  const float least = rising < falling ? rising : falling;
  return least > 1.0f ? 1.0f : least;
}

// Each step by itself: the compiler branches where a choice in one settles one in the next.
struct HueBlock {
  float max[RgbBlock::kPixels];
  float range[RgbBlock::kPixels];
  float hue[RgbBlock::kPixels];
  float lack[RgbBlock::kPixels];

  void Load(const RgbBlock& block, float sixths, int count) {
    for (int i = 0; i < count; ++i) {
      const float r = block.r[i];
      const float larger = block.g[i] > block.b[i] ? block.g[i] : block.b[i];
      const float smaller = block.g[i] < block.b[i] ? block.g[i] : block.b[i];
      max[i] = r > larger ? r : larger;
      range[i] = max[i] - (r < smaller ? r : smaller);
    }
    for (int i = 0; i < count; ++i) {
      hue[i] = HueOf(block.r[i], block.g[i], block.b[i], max[i], range[i]) + sixths;
    }
  }
  void Store(float offset, int count, float* channel) {
    for (int i = 0; i < count; ++i) lack[i] = LackOf(hue[i], offset);
    // torchvision computes in 0 … 1 and goes back to bytes by this factor.
    for (int i = 0; i < count; ++i) {
      channel[i] = (max[i] - range[i] * (lack[i] < 0.0f ? 0.0f : lack[i])) * (255.999f / 255.0f);
    }
  }
};

}  // namespace

void ToGrayscale(const MutableImageView& image) {
  for (int y = 0; y < image.height; ++y) {
    uint8_t* pixel = image.row(y);
    for (int x = 0; x < image.width; ++x, pixel += 3) {
      const auto gray =
          static_cast<uint8_t>(static_cast<int>(GrayOf(pixel[0], pixel[1], pixel[2])));
      pixel[0] = pixel[1] = pixel[2] = gray;
    }
  }
}

void PermuteChannels(const std::array<int, 3>& from, const MutableImageView& image) {
  for (int y = 0; y < image.height; ++y) {
    uint8_t* pixel = image.row(y);
    for (int x = 0; x < image.width; ++x, pixel += 3) {
      const uint8_t before[3] = {pixel[0], pixel[1], pixel[2]};
      for (int c = 0; c < 3; ++c) pixel[c] = before[from[c]];
    }
  }
}

void AdjustBrightness(double factor, const MutableImageView& image) {
  const auto ratio = static_cast<float>(factor);
  ValueTable table;
  for (int i = 0; i < 256; ++i) table[i] = static_cast<uint8_t>(Clamp(ratio * i));
  MapValues(table, image);
}

void AdjustContrast(double factor, const MutableImageView& image) {
  const auto ratio = static_cast<float>(factor);
  const float rest = static_cast<float>(1.0 - factor) * static_cast<float>(MeanGray(image));
  ValueTable table;
  for (int i = 0; i < 256; ++i) table[i] = static_cast<uint8_t>(Clamp(ratio * i + rest));
  MapValues(table, image);
}

void AdjustSaturation(double factor, const MutableImageView& image) {
  if (image.channels != 3) return;
  const auto ratio = static_cast<float>(factor);
  const auto rest = static_cast<float>(1.0 - factor);
  ForBlocks(image, [=](RgbBlock& block, int count) {
    for (int i = 0; i < count; ++i) {
      const float gray = rest * GrayOf(block.r[i], block.g[i], block.b[i]);
      block.r[i] = Clamp(ratio * block.r[i] + gray);
      block.g[i] = Clamp(ratio * block.g[i] + gray);
      block.b[i] = Clamp(ratio * block.b[i] + gray);
    }
  });
}

void AdjustHue(double shift, const MutableImageView& image) {
  const auto sixths = static_cast<float>(shift * 6.0);
  HueBlock hues;
  ForBlocks(image, [&](RgbBlock& block, int count) {
    hues.Load(block, sixths, count);
    hues.Store(5.0f, count, block.r);
    hues.Store(3.0f, count, block.g);
    hues.Store(1.0f, count, block.b);
  });
}

void AdjustSharpness(double factor, const MutableImageView& image, ScratchBuffer& rows) {
  const auto rest = static_cast<float>(1.0 - factor);
  const size_t row_bytes = image.row_bytes();
  const size_t channels = static_cast<size_t>(image.channels);
  // The row above and this one as they were.
  uint8_t* above = rows.Resize(2 * row_bytes);
  uint8_t* current = above + row_bytes;
  std::memcpy(above, image.row(0), row_bytes);
  for (int y = 1; y + 1 < image.height; ++y, std::swap(above, current)) {
    uint8_t* out = image.row(y);
    const uint8_t* below = image.row(y + 1);
    std::memcpy(current, out, row_bytes);
    for (size_t i = channels; i < row_bytes - channels; ++i) {
      const size_t l = i - channels;
      const size_t r = i + channels;
      const int sum = above[l] + above[i] + above[r] + current[l] + 5 * current[i] + current[r] +
                      below[l] + below[i] + below[r];
      const auto blurred = static_cast<float>((2 * sum + 13) / 26);  // sum / 13, rounded
      const auto x = static_cast<float>(current[i]);
      out[i] = static_cast<uint8_t>(static_cast<int>(Clamp(x + rest * (blurred - x))));
    }
  }
}

}  // namespace bulkhead
