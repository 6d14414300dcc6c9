#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/file_bytes.h"
#include "server/base/value_store.h"
#include "server/image/codecs/decode_options.h"
#include "server/image/codecs/jpeg_scan.h"
#include "server/image/image.h"
#include "server/image/jpeg/coefficients.h"
#include "server/image/jpeg/decode_counts.h"
#include "server/image/jpeg/fallback.h"
#include "server/image/kept/kept_files.h"
#include "server/image/pixel_format.h"

namespace bulkhead {

struct JpegCodec;
namespace jpeg {
class SequentialDecoder;
}

// Decodes JPEG files to the pixels of libjpeg-turbo: accurate integer DCT, smooth ("fancy") chroma
// upsampling, what OpenCV's imread gives. The usual files are decoded by server/image/jpeg, which
// is faster; others, and those with any irregularity, by libjpeg-turbo itself, whose verdict
// counts. A decoder decodes file after file and keeps its buffers. EXIF orientation is not applied.
// Not thread-safe.
//
//   JpegDecoder decoder;
//   BULKHEAD_ASSIGN_OR_RETURN(const ImageSize size, decoder.Open(file, max_pixels));
//   BULKHEAD_ASSIGN_OR_RETURN(const ImageView crop, decoder.Decode(PixelFormat::kRgb, rect,
//   image));
class JpegDecoder {
 public:
  enum class Way { kFastest, kLibjpeg };
  // kFastest, or kLibjpeg when the environment variable BULKHEAD_JPEG is `libjpeg` (for finding out
  // whether a difference comes from a decoder). Read once per process.
  static Way DefaultWay();

  explicit JpegDecoder(Way way = DefaultWay());
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Checks the marker structure of the whole `file` and reads its header. `file` must stay valid
  // until Decode has returned. Sample errors: those of ScanJpeg, and UNSUPPORTED_IMAGE or
  // CORRUPT_IMAGE for a header that libjpeg does not take. The size is that of the decoded image,
  // options.scale applied. A truncated file is accepted only if it has a single scan (is not
  // progressive).
  // `source`: where `file` comes from, which OpenUnread did not open just now; null: from
  // elsewhere.
  absl::StatusOr<ImageSize> Open(absl::string_view file, uint64_t max_pixels,
                                 const DecodeOptions& options = {}, FileBytes* source = nullptr);
  // Opens `file`, which must stay valid until Decode has returned, without its bytes, if it is
  // known to be a good JPEG file whose coefficients are kept. Nothing if it is not: then the bytes
  // are to be read and opened, and a note of the file is kept once they are decoded.
  struct Unread {
    ImageSize size;
    int orientation = 1;  // EXIF's
  };
  std::optional<Unread> OpenUnread(FileBytes& file, uint64_t max_pixels,
                                   const DecodeOptions& options = {});

  // Decodes the opened file, once, up to the last row of `rect`, and returns the pixels under
  // `rect` as a view into `buffer`: bit for bit those of a decode of the whole image. Only what is
  // needed for `rect` is transformed, where that is known to be exact; its entropy-coded data is
  // read from the top, unless its seek entries are known. Sample errors: CORRUPT_IMAGE for any
  // decoder warning up to that row, UNSUPPORTED_IMAGE. A truncated file that Open accepted is
  // decoded whole: TRUNCATED_IMAGE if fewer rows were decoded than options.accept_truncated
  // requires, else the missing rows are gray. Of a file that OpenUnread opened the bytes are read
  // if what is kept turns out to be damaged: also the errors of FileBytes::Get. Throws
  // std::bad_alloc when memory is refused.
  absl::StatusOr<ImageView> Decode(PixelFormat format, const Rect& rect, Image& buffer);

  // Memory that decoding the opened file takes: the rows' pixels, and all coefficients of a file
  // of several scans (6 bytes a pixel without chroma subsampling). The few rows in work are not
  // counted.
  uint64_t PlannedBytes(PixelFormat format, const Rect& rect) const;

  // Of which files something is kept that is not there yet.
  enum class Making {
    kNone,
    kInPassing,  // coefficients of as many as CoefficientPolicy allows
    kAll,        // and coefficients are used even where decoding anew was faster
  };
  // What is kept of files across samples and epochs. The stores outlive this; null: not used.
  struct Stores {
    ValueStore* seek = nullptr;          // seek entries, for rectangles
    ValueStore* coefficients = nullptr;  // also for whole images
    StoreKey record;                     // of the record of the next files
    Making making = Making::kNone;
  };
  void SetStores(const Stores& stores) {
    stores_ = stores;
    kept_.SetStore(stores.coefficients, stores.making == Making::kAll);
  }
  KeptFiles& kept() { return kept_; }
  // By which the stores know `file`, of a record that may have several.
  static StoreKey FileKey(const StoreKey& record, absl::string_view file);

  const jpeg::DecodeCounts& counts() const { return counts_; }

 private:
  // Whether coefficients of a file of that size may be used that is decoded so.
  bool UsesCoefficients(uint64_t file_bytes, const DecodeOptions& options) const;
  void Begin(uint64_t max_pixels, const DecodeOptions& options);
  // Opens the file anew, of which nothing undamaged is kept, and reads it if it was not read yet.
  absl::Status OpenRead();
  // Keeps a note of the file whose coefficients are kept.
  void NoteFile();
  // Opens a file without a walk through its markers, if coefficients are kept of its bytes: then it
  // is whole. They may turn out to be damaged.
  bool OpenKept(uint64_t max_pixels);
  // Opens any file.
  absl::StatusOr<ImageSize> OpenScanned();
  // Decodes the file without libjpeg.
  jpeg::Fallback DecodeHere(PixelFormat format, const Rect& rect, const MutableImageView& out);
  jpeg::Fallback DecodeCrop(PixelFormat format, const Rect& rect, const MutableImageView& out);
  // By the file's coefficients, which are made by `making` if they are missing. Not kNone: they are
  // not used, which says nothing of the file.
  jpeg::Fallback DecodeKept(PixelFormat format, const Rect& rect, const MutableImageView& out,
                            Making making);
  // Makes and keeps them; empty if there are none.
  absl::string_view MakeCoefficients();
  // Takes them from libjpeg, for a file of several scans. False if they do not give its pixels.
  bool WriteCoefficients();
  // Decodes a file of several scans by its coefficients.
  bool DecodeScans(PixelFormat format, const Rect& rect, const MutableImageView& out);
  void SetKey();
  // Counts a file that was decoded here.
  void Count(const Rect& rect);
  // The decoder for the file.
  jpeg::Fallback ChooseWay(const JpegStructure& structure);
  // Lets libjpeg read the header of the file.
  absl::Status OpenLibjpeg();
  absl::StatusOr<ImageView> DecodeOpened(PixelFormat format, const Rect& rect, Image& buffer);
  // Reads all rows of a truncated file. Sample error: when too few came before the data ran out.
  absl::Status ReadTruncated(const MutableImageView& rows);

  const Way way_;
  absl::string_view file_;
  uint64_t max_pixels_ = 0;
  bool uses_kept_ = false;                             // coefficients may be used
  bool looks_ = false;                                 // and are looked for
  bool has_kept_ = false;                              // and seem to be there
  bool unscanned_ = false;                             // opened by OpenKept or OpenUnread
  jpeg::Fallback fallback_ = jpeg::Fallback::kForced;  // of the opened file
  jpeg::DecodeCounts counts_;
  Stores stores_;
  bool has_key_ = false;
  StoreKey key_;                 // of the opened file: who it is, and what it holds
  std::string value_;            // of the opened file, from one of them
  FileBytes* source_ = nullptr;  // of the opened file; null: the caller has its bytes
  std::optional<bool> chosen_;   // whether coefficients are looked for of a file that OpenUnread
                                 // did not open
  std::unique_ptr<JpegCodec> codec_;
  std::unique_ptr<jpeg::SequentialDecoder> own_;
  jpeg::Coefficients coefficients_;
  jpeg::CoefficientWriter writer_;
  KeptFiles kept_;
};

}  // namespace bulkhead
