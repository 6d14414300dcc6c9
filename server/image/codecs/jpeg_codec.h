#pragma once

#include "server/image/codecs/decode_options.h"
#include "server/image/codecs/jpeg_error.h"
#include "server/image/image.h"
#include "server/image/jpeg/coefficients.h"

namespace bulkhead {

// libjpeg, with one file at a time, which is in memory as a whole. Not thread-safe.
struct JpegCodec {
  jpeg_decompress_struct info;
  jpeg_source_mgr source;
  JpegErrorManager errors;
  ScratchBuffer spare_row;
  DecodeOptions options;
  bool truncated = false;  // the file ends early, and may

  JpegCodec();
  JpegCodec(const JpegCodec&) = delete;
  JpegCodec& operator=(const JpegCodec&) = delete;
  ~JpegCodec() { jpeg_destroy_decompress(&info); }

  void Create() {
    // Only refused memory can end this.
    if (!errors.Run([this] { jpeg_create_decompress(&info); })) errors.ToStatus().IgnoreError();
    info.client_data = this;
    info.src = &source;
  }
  // Tables outlive the image in libjpeg: a file that lacks some would be decoded by those of the
  // file before, and its verdict depend on that.
  void Forget() {
    jpeg_destroy_decompress(&info);
    Create();
  }

  // Of a file that may end early: an end-of-image marker, behind which libjpeg goes on with gray.
  static boolean FillInputBuffer(j_decompress_ptr info);

  // Whether decoding a part of a row, and skipping rows above it, is bit-exact: known of these
  // samplings of a baseline file, by test.
  bool CanDecodeRegion() const;
  // Sets up output rows that cover `rect` and makes them as narrow as allowed. Returns the column
  // where they begin. Calls libjpeg: for JpegErrorManager::Run only, as the next.
  int StartRows(const Rect& rect, bool region);
  void ReadRows(const MutableImageView& rows, int first_row);
  void SkipRows(int count, bool region);

  // Writes the coefficients of a band of MCUs. False when one of them is so large that decoders
  // differ. Calls libjpeg.
  bool WriteBand(const jpeg::Header& header, jvirt_barray_ptr* arrays, int band,
                 jpeg::CoefficientWriter& writer);
  // Whether all coefficients of the file were there, and are those of the header's quantization
  // tables. What a progressive file leaves out libjpeg makes up.
  bool IsWhole(const jpeg::Header& header) const;
};

}  // namespace bulkhead
