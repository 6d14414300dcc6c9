#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"
#include "server/image/image.h"
#include "server/image/jpeg/coefficients.h"
#include "server/image/jpeg/component_plane.h"
#include "server/image/jpeg/entropy_decoder.h"
#include "server/image/jpeg/fallback.h"
#include "server/image/jpeg/header.h"
#include "server/image/jpeg/idct.h"
#include "server/image/jpeg/mcu_batch.h"
#include "server/image/jpeg/seek_entries.h"
#include "server/image/pixel_format.h"
#include "server/image/simd.h"

namespace bulkhead::jpeg {

// Decodes the usual JPEG files (header.h), whole or a rectangle of them, to the pixels of
// libjpeg-turbo with its accurate DCT and smooth upsampling. One band of MCUs at a time:
//
//   file ─ScanBytes→ bits ─EntropyDecoder→ coefficients of 16 MCUs ─InverseTransform→
//   a band of samples of each component ─Upsample…, ConvertRow→ the caller's pixels
//
// so that the data in work stays in the caches. MCUs beside and above the rectangle are skipped by
// the entropy decoder or, if the file's seek entries are known, not read; and nothing is read below
// the rows that libjpeg reads to decode the rectangle. A file whose coefficients are known is not
// read behind its header; what is expanded of them takes the entropy decoder's place. Any
// irregularity ends the decode without a
// verdict. Buffers are reused from file to file. Not thread-safe.
class SequentialDecoder {
 public:
  // Reads the header of `file`, whose marker structure ScanJpeg found valid and which must stay
  // valid until Decode has returned. kNone: Decode may be called. With Scans::kAny only DecodeKept
  // may, if the file has several scans.
  Fallback Open(absl::string_view file, Scans scans = Scans::kOne);
  const Header& header() const { return header_; }

  // Decodes what lies under `rect` of the opened file to `out`, which has its size. kNone: these
  // are the pixels of libjpeg, which would not warn up to the last of these rows. Else `out` is
  // undefined. `known`: the file's seek entries; null: they are not known. Throws std::bad_alloc.
  Fallback Decode(PixelFormat format, const Rect& rect, const MutableImageView& out,
                  Simd simd = DefaultSimd(), const SeekEntries* known = nullptr);

  // Decodes, and makes the file's seek entries: reads on to the end of the scan. The bytes to keep
  // go to `entries`, which must stay valid. They are those of a file without entries if libjpeg
  // might warn below the rectangle; empty if it is unknown.
  Fallback DecodeAndIndex(PixelFormat format, const Rect& rect, const MutableImageView& out,
                          absl::string_view& entries);

  // Bands of MCUs that are needed for `rect`: from `first` on, before `second`.
  std::pair<int, int> BandsOf(PixelFormat format, const Rect& rect);
  // Decodes by the file's coefficients, of which these bands were set. kNone: as Decode would have
  // done, to the end of the scan. Else they are damaged, or `out` needs libjpeg.
  Fallback DecodeKept(PixelFormat format, const Rect& rect, const MutableImageView& out,
                      Coefficients& kept, Simd simd = DefaultSimd());
  // Writes the coefficients of the opened file to be kept, of which the scan is read to its end.
  // kNone: they are whole.
  Fallback WriteCoefficients(const StoreKey& key, CoefficientWriter& writer,
                             Simd simd = DefaultSimd());

  // MCUs of the last file, and how many of them the entropy decoder went through.
  uint64_t mcu_count() const { return uint64_t{1} * header_.mcus_across() * header_.mcus_down(); }
  uint64_t mcus_read() const { return mcus_read_; }

 private:
  // To begin at another place costs as much as some MCUs.
  static constexpr uint32_t kLeastLeftOut = 4;

  // The part of the image that a rectangle needs, in MCUs; ends are exclusive.
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
  void Begin(PixelFormat format, const Rect& rect, Simd simd);
  // All bands, of which DecodeBand decodes each.
  Fallback DecodeBands(const Rect& rect, const MutableImageView& out);
  Fallback DecodeBand(int band);
  // Skips the MCUs before the one in that column of `band`, by reading them or by a seek entry.
  Fallback GoTo(int band, int column);
  Fallback DecodeBatch(int count, int first_mcu);
  Fallback ExpandBatch(int count);
  // Writes the coefficients of the next band.
  Fallback WriteBand(CoefficientWriter& writer);
  // Runs the entropy decoder over `count` MCUs, and adds the entries on its way. With `keep` it
  // decodes them into the batch, else it skips them.
  Fallback Read(int count, bool keep);
  // How many of `count` MCUs come before the next entry, which is noted when it is due.
  int UpToEntry(int count);
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
  const SeekEntries* known_ = nullptr;
  Coefficients* kept_ = nullptr;
  bool making_ = false;
  SeekEntryMaker maker_;
  uint64_t mcus_read_ = 0;
  std::array<ComponentPlane, kMaxComponents> planes_;
  ScratchBuffer row_buffer_;
  std::array<uint8_t*, kMaxComponents> rows_{};  // chroma of one row of pixels

  McuBatch batch_;
};

}  // namespace bulkhead::jpeg
