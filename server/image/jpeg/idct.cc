#include "server/image/jpeg/idct.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "server/image/jpeg/kernels.h"

namespace bulkhead::jpeg {
namespace {

// The transform of eight values, each step exact in 32 bits, before rounding. What stands for
// products by 0.541196100, 0.765366865 and so on in the paper is summed up to one factor, in units
// of 1 / 8192, for each input of each output.
struct Eight {
  uint32_t even[4];  // of outputs 0 and 7, 1 and 6, 2 and 5, 3 and 4
  uint32_t odd[4];   // what the first of these has more, and the second less
};

// Unsigned, so that what is too large wraps around, as it does in vectors.
inline Eight Transform(const int* values) {
  uint32_t in[kBlockSize];
  std::copy_n(values, kBlockSize, in);
  const uint32_t sum = (in[0] + in[4]) * 8192;
  const uint32_t difference = (in[0] - in[4]) * 8192;
  const uint32_t outer = in[2] * 10703 + in[6] * 4433;
  const uint32_t inner = in[2] * 4433 - in[6] * 10704;
  return {{sum + outer, difference + inner, difference - inner, sum - outer},
          {in[1] * 11363 + in[3] * 9633 + in[5] * 6437 + in[7] * 2260,
           in[1] * 9633 - in[3] * 2259 - in[5] * 11362 - in[7] * 6436,
           in[1] * 6437 - in[3] * 11362 + in[5] * 2261 + in[7] * 9633,
           in[1] * 2260 - in[3] * 6436 + in[5] * 9633 - in[7] * 11363}};
}

// `value`, a signed number, rounded to 2^shift.
inline int Rounded(uint32_t value, int shift) {
  return static_cast<int>(value + (1u << (shift - 1))) >> shift;
}

inline uint8_t Sample(int value) { return static_cast<uint8_t>(std::clamp(value + 128, 0, 255)); }

bool TransformBlock(const int16_t* in, const Dequantizer& quant, uint8_t* out, ptrdiff_t stride) {
  int between[kBlockCoefficients];
  bool good = true;
  for (int x = 0; x < kBlockSize; ++x) {
    int column[kBlockSize];
    for (int y = 0; y < kBlockSize; ++y) {
      column[y] = in[y * kBlockSize + x] * quant.factors[y * kBlockSize + x];
    }
    const Eight eight = Transform(column);
    for (int y = 0; y < 4; ++y) {
      const int upper = Rounded(eight.even[y] + eight.odd[y], 11);
      const int lower = Rounded(eight.even[y] - eight.odd[y], 11);
      good &= std::max(std::abs(upper), std::abs(lower)) <= kMaxBetween;
      between[y * kBlockSize + x] = upper;
      between[(7 - y) * kBlockSize + x] = lower;
    }
  }
  if (!good) return false;
  for (int y = 0; y < kBlockSize; ++y) {
    const Eight eight = Transform(between + static_cast<ptrdiff_t>(y) * kBlockSize);
    for (int x = 0; x < 4; ++x) {
      out[y * stride + x] = Sample(Rounded(eight.even[x] + eight.odd[x], 18));
      out[y * stride + 7 - x] = Sample(Rounded(eight.even[x] - eight.odd[x], 18));
    }
  }
  return true;
}

// A block of one colour.
void FillBlock(int dc, uint8_t* out, ptrdiff_t stride) {
  const uint8_t sample = Sample((dc + 4) >> 3);
  for (int y = 0; y < kBlockSize; ++y) std::memset(out + y * stride, sample, kBlockSize);
}

}  // namespace

bool InverseTransform(const BlockRow& blocks, const Dequantizer& quant, uint8_t* out,
                      ptrdiff_t stride, Simd simd) {
  if (const Kernels* kernels = KernelsFor(simd)) {
    return kernels->inverse_transform(blocks, quant, out, stride);
  }
  bool good = true;
  for (int i = 0; i < blocks.count; ++i) {
    int16_t* block = blocks.coefficients + static_cast<ptrdiff_t>(i) * kBlockCoefficients;
    uint8_t* to = out + static_cast<ptrdiff_t>(i) * kBlockSize;
    if (blocks.last[i] == 0) {
      FillBlock(block[0] * quant.factors[0], to, stride);
      block[0] = 0;
      continue;
    }
    good &= TransformBlock(block, quant, to, stride);
    std::fill_n(block, kBlockCoefficients, 0);
  }
  return good;
}

}  // namespace bulkhead::jpeg
