#ifndef BULKHEAD_SERVER_IMAGE_JPEG_SEQUENTIAL_DECODER_H_
#define BULKHEAD_SERVER_IMAGE_JPEG_SEQUENTIAL_DECODER_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/image/image.h"
#include "server/image/jpeg/component_plane.h"
#include "server/image/jpeg/entropy_decoder.h"
#include "server/image/jpeg/fallback.h"
#include "server/image/jpeg/header.h"
#include "server/image/jpeg/idct.h"
#include "server/image/pixel_format.h"
#include "server/image/simd.h"

namespace bulkhead::jpeg {

// Decodes the usual JPEG files (header.h), whole or a rectangle of them, to the pixels of
// libjpeg-turbo with its accurate DCT and smooth upsampling. One band of MCUs at a time:
//
//   file ─ScanBytes→ bits ─EntropyDecoder→ coefficients of 16 MCUs ─InverseTransform→
//   a band of samples of each component ─Upsample…, ConvertRow→ the caller's pixels
//
// so that what is worked on stays in the caches. MCUs beside and above the rectangle are passed
// over by the entropy decoder, and nothing below the rows is read that libjpeg reads to decode
// them. Whatever is not as it should be ends it without a verdict. Buffers are reused from file to
// file. Not thread-safe.
class SequentialDecoder {
 public:
  // Reads the header of `file`, whose marker structure ScanJpeg found valid and which must stay
  // valid until Decode has returned. kNone: Decode may be called.
  Fallback Open(absl::string_view file);
  const Header& header() const { return header_; }

  // Decodes what lies under `rect` of the opened file to `out`, which has its size. kNone: these
  // are the pixels of libjpeg, which would warn of nothing up to the last of these rows. Else `out`
  // means nothing. Throws std::bad_alloc.
  Fallback Decode(PixelFormat format, const Rect& rect, const MutableImageView& out,
                  Simd simd = DefaultSimd());

 private:
  // MCUs whose coefficients are there at a time.
  static constexpr int kBatchMcus = 16;

  // What of the image a rectangle needs, in MCUs; ends are exclusive.
  struct Needs {
    int left = 0;
    int right = 0;
    int top = 0;
    int bottom = 0;
  };

  bool smooth_down() const { return header_.v_max == 2 && component_count_ > 1; }
  Needs NeedsOf(const Rect& rect) const;
  int OutputComponents(PixelFormat format) const;
  void PrepareBuffers();
  Fallback DecodeBand(int band);
  Fallback DecodeBatch(int count, int first_mcu);
  bool TransformBatch(int count, int first_mcu);
  void CompleteEdges(int band);
  void WriteRows(int band, const Rect& rect, const MutableImageView& out);
  void WriteRow(int band, int y, const Rect& rect, uint8_t* out);
  // Chroma samples of one row of pixels, the first of them for column rect.left.
  const uint8_t* ChromaRow(int component, int band, int y, const Rect& rect);

  absl::string_view file_;
  Header header_;
  EntropyDecoder entropy_;
  std::array<Dequantizer, kMaxComponents> quant_;

  // Of the decode that runs.
  PixelFormat format_ = PixelFormat::kRgb;
  Simd simd_ = Simd::kBest;
  int component_count_ = 0;  // that come out
  Needs needs_;
  int skipped_mcus_ = 0;  // to be passed over before the next that is needed
  std::array<ComponentPlane, kMaxComponents> planes_;
  ScratchBuffer row_buffer_;
  std::array<uint8_t*, kMaxComponents> rows_{};  // chroma of one row of pixels

  alignas(
      64) std::array<int16_t, kBatchMcus * kMaxBlocksInMcu * kBlockCoefficients> coefficients_{};
  std::array<uint8_t, kBatchMcus * kMaxBlocksInMcu> last_{};
};

}  // namespace bulkhead::jpeg

#endif  // BULKHEAD_SERVER_IMAGE_JPEG_SEQUENTIAL_DECODER_H_
