#pragma once

#include <cstddef>
#include <cstdint>

#include "server/base/random.h"
#include "server/image/image.h"
#include "server/image/simd.h"

// The work of mixup and cutmix on two rows of a batch, with the same bits on every machine.
namespace bulkhead {

// A number in [0, 1] from Beta(alpha, alpha), 0.001 ≤ alpha ≤ 1000. Draws, which are part of the
// data format, until a try is accepted: for alpha ≤ 1 two units a try (Jöhnk), above it, for one
// gamma variate and then the other, three units a try (Marsaglia and Tsang, over Box and Muller).
double DrawBeta(SampleRandom& random, double alpha);

// A share of the whole in steps of 1 / 16384, so that bytes are mixed in integers of 16 bits and
// float32 holds the share and its complement exactly.
class MixShare {
 public:
  static constexpr uint32_t kSteps = 16384;

  // The nearest step, halves to the even one.
  explicit MixShare(double share);
  uint32_t steps() const { return steps_; }  // of kSteps
  float share() const { return static_cast<float>(steps_) / static_cast<float>(kSteps); }

 private:
  uint32_t steps_;
};

// a ← the share of a and the rest of b. Bytes are rounded to the nearest, halves up; floats are
// computed as a × share + b × (1 − share), rounded three times. The rows may be the same memory.
void MixBytes(uint8_t* a, const uint8_t* b, size_t count, MixShare share,
              Simd simd = DefaultSimd());
void MixFloats(float* a, const float* b, size_t count, float share);

// The rectangle that cutmix cuts, as torchvision's: its sides are sqrt(1 − share) of the image's,
// its centre is anywhere, and parts outside are cut off. Draws: NextBelow(width) for the centre's
// column, NextBelow(height) for its row.
Rect DrawCut(SampleRandom& random, ImageSize size, double share);

}  // namespace bulkhead
