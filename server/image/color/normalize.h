#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/image/image.h"
#include "server/image/simd.h"

namespace bulkhead {

// The arithmetic of the `normalize` stage, per channel and in float32 exactly as written: either
// (x − mean) / std, or x / divide − subtract. True divisions, no contraction: the same bits as
// NumPy's on float32 arrays, on every CPU. Immutable; thread-safe.
class Normalizer {
 public:
  enum class Formula { kMeanStd, kDivideSubtract };
  struct Channel {
    float first;   // mean, or divide
    float second;  // std, or subtract
  };
  // `channels`: one per channel, or one for all.
  Normalizer(Formula formula, std::vector<Channel> channels);

  // One value of channel `c` (0 when there is one for all).
  float Apply(size_t c, float x) const;

  // A uint8 image → float32, contiguous: [height, width, channels], or [channels, height, width]
  // when `channels_first`. `out` holds one float a value.
  void ApplyToImage(const ImageView& in, bool channels_first, float* out,
                    Simd simd = DefaultSimd()) const;

  // The same for one row, `row`, which is row `y` of an image of `height` rows; `out` is where the
  // whole image begins.
  void ApplyToRow(const ImageView& row, int y, int height, bool channels_first, float* out,
                  Simd simd = DefaultSimd()) const;

  // `count` float32 values in place; value i belongs to channel (i / inner) modulo their number,
  // where `inner` is the number of consecutive values of one channel: 1 if the channels are the
  // last dimension.
  void ApplyInPlace(float* values, size_t count, size_t inner) const;

 private:
  Formula formula_;
  std::vector<Channel> channels_;
  // The constants of eight pixels.
  std::vector<float> firsts_;
  std::vector<float> seconds_;
  // The result for each byte, per channel: a uint8 image needs no arithmetic.
  std::vector<std::array<float, 256>> tables_;
};

// A contiguous uint8 copy of `in` with the channels first: [channels, height, width].
void CopyChannelsFirst(const ImageView& in, uint8_t* out, Simd simd = DefaultSimd());

}  // namespace bulkhead
