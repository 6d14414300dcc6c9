#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/base/checksum.h"
#include "server/base/class_names.h"
#include "server/source/file.h"
#include "server/source/index/index_file.h"

namespace bulkhead {

// One sample of an image list or folder, as its index keeps it.
struct ImageRow {
  struct Image {
    absl::string_view path;  // as the list writes it; relative to the folder
    FileIdentity file;       // kMissing: there was no such file when the index was built
    bool is_missing() const { return file.size_bytes == kMissing.size_bytes; }
    bool is_malformed() const { return file.size_bytes == kMalformed.size_bytes; }
  };
  static constexpr FileIdentity kMissing = {UINT64_MAX, 0, 0};
  // Marks the images of a line that could not be read: the path of the first one is the problem.
  static constexpr FileIdentity kMalformed = {UINT64_MAX - 1, 0, 0};
  uint64_t line = 0;         // in the list, from 1; 0 for folders
  absl::string_view labels;  // little-endian numbers, one after the other
  std::vector<Image> images;
};

// Writes the index of an image list or folder: the names of classes, rows, then record_count + 1
// offsets (u64), then the size of the labels and the number of images of each row. A row has a
// checksum of its own, which is checked at each use. Not thread-safe.
class ImageRowsWriter {
 public:
  explicit ImageRowsWriter(int fd) : out_(fd) {}

  // Call it before the first row, or not at all. Names that cannot be sent (IsTellable) are left
  // out.
  absl::Status AddNames(const ClassNames& names);
  // Every row has as many images and label bytes as the first.
  absl::Status Add(const ImageRow& row);
  uint64_t count() const { return count_; }

  // The identity checksum (docs/semantics.md, "Fingerprints") becomes SHA-256 over `text_digest`
  // (32 bytes, of the list's text or the folder's paths) and the digest of every image's size (u64)
  // in order.
  absl::Status Finish(uint32_t kind, absl::string_view text_digest, uint64_t file_size_bytes,
                      int64_t file_mtime_ns);

 private:
  IndexFileWriter out_;
  Sha256 sizes_;
  std::string offsets_;
  uint64_t count_ = 0;
  uint64_t names_bytes_ = 0;
  uint32_t label_bytes_ = 0;
  uint32_t image_count_ = 0;
};

// The rows of a mapped index. Immutable, thread-safe; rows are views of it.
class ImageRows {
 public:
  // INDEX_DAMAGED also if rows do not have `image_count` images and `label_bytes` of labels; other
  // errors are those of MappedIndex::Open.
  static absl::StatusOr<ImageRows> Open(const internal::v1::ResolvedFile& file, uint32_t kind,
                                        uint32_t image_count, uint32_t label_bytes);

  uint64_t record_count() const { return index_.header().record_count; }
  // Reads row i < record_count() into `row`, reusing its memory. INDEX_DAMAGED.
  absl::Status Get(uint64_t i, ImageRow& row) const;
  // The row's first image; sets `line` to the row's line. INDEX_DAMAGED.
  absl::StatusOr<ImageRow::Image> FirstImage(uint64_t i, uint64_t& line) const;

 private:
  absl::StatusOr<absl::string_view> RowOf(uint64_t i) const;
  static bool TakeImage(absl::string_view& bytes, ImageRow::Image& image);
  absl::Status Damaged() const;

  explicit ImageRows(MappedIndex index) : index_(std::move(index)) {}

  MappedIndex index_;
  std::string name_;
  const char* offsets_ = nullptr;
  uint64_t rows_bytes_ = 0;
  uint32_t image_count_ = 0;
  uint32_t label_bytes_ = 0;
};

}  // namespace bulkhead
