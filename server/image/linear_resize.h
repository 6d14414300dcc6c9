#ifndef BULKHEAD_SERVER_IMAGE_LINEAR_RESIZE_H_
#define BULKHEAD_SERVER_IMAGE_LINEAR_RESIZE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "server/image/image.h"
#include "server/image/simd.h"

namespace bulkhead {

// Bilinear resizing of three-channel images, row by row, with the pixels of OpenCV's cv::resize
// (INTER_LINEAR on 8 bits): weights in units of 1 / 2048, rounded to even; horizontal sums cut to
// multiples of 16, each product of the vertical pass to multiples of 2^16. Needs AVX2. Faster than
// OpenCV because horizontal sums stay in 16 bits and pixels are not taken apart into channels.
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
  // All rows, to `out`, of the result's size; past the caches, as nobody here reads them soon.
  void Run(const ImageView& image, const MutableImageView& out);

 private:
  struct SourceRow {
    int number = -1;
    std::vector<int16_t> sums;  // 3 × output width, and what the last store writes too much
  };

  void PlanColumns();
  const int16_t* SumsOf(int row);
  void WriteRow(uint8_t* out, bool past_caches);

  ImageSize in_;
  ImageSize out_;
  Mirror mirror_ = Mirror::kNone;
  // For each output column where its two neighbouring pixels begin, in bytes, and their weights,
  // four times, in the order in which the kernel takes four columns: 0, 2, 1, 3.
  std::vector<int32_t> offsets_;
  std::vector<int16_t> weights_;
  ImageView image_;
  int next_row_ = 0;
  std::array<SourceRow, 2> rows_;
  std::vector<uint8_t> last_row_;  // of the image, with room behind it
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_IMAGE_LINEAR_RESIZE_H_
