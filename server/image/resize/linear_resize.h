#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "server/image/image.h"
#include "server/image/resize/linear_avx2.h"
#include "server/image/resize/linear_avx512.h"
#include "server/image/resize/linear_tap.h"
#include "server/image/simd.h"

namespace bulkhead {

// Bilinear resizing of three-channel images, row by row, with the pixels of OpenCV's cv::resize
// (INTER_LINEAR on 8 bits): weights in units of 1 / 2048, rounded to even; horizontal sums cut to
// multiples of 16, each product of the vertical pass to multiples of 2^16. Needs AVX2, and
// uses AVX-512. Faster than OpenCV because horizontal sums stay in 16 bits and pixels are not taken
// apart into channels.
// Tables and rows are reused from image to image. Not thread-safe.
class LinearResizer {
 public:
  enum class Mirror { kNone, kBefore, kAfter };  // left and right, before or after resizing

  // Plans to resize images of `in` pixels to `out`; false when this machine or these sizes are not
  // for this class: a side below two pixels, the same size, and 2:1, which OpenCV averages.
  bool Prepare(ImageSize in, int channels, ImageSize out, Mirror mirror, Simd simd = DefaultSimd());

  // Writes rows 0, 1, 2, … of the result of resizing `image` to `out`, 3 × width bytes each; Begin
  // comes first. `image` has the prepared size.
  void Begin(const ImageView& image);
  void NextRow(uint8_t* out);
  // All rows, to `out`, of the result's size. `past_caches`: this process does not read them soon.
  void Run(const ImageView& image, const MutableImageView& out, bool past_caches);

 private:
  struct SourceRow {
    int number = -1;
    ScratchBuffer memory;
    int16_t* sums = nullptr;  // 3 × output width, and what the last store writes beyond
  };

  void PlanColumns();
  const int16_t* SumsOf(int row);
  void WriteRow(uint8_t* out, bool past_caches);

  ImageSize in_;
  ImageSize out_;
  Mirror mirror_ = Mirror::kNone;
  Simd simd_ = Simd::kScalar;
  std::vector<LinearTap> taps_;  // of the result's columns
  bool wide_ = false;            // the kernels for AVX-512 are planned, not those for AVX2
  LinearColumnsAvx2 columns_avx2_;
  LinearColumnsAvx512 columns_avx512_;
  ImageView image_;
  int next_row_ = 0;
  std::array<SourceRow, 2> rows_;
  std::vector<uint8_t> last_row_;  // of the image, with room after it
};

}  // namespace bulkhead
