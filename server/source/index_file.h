#ifndef BULKHEAD_SERVER_SOURCE_INDEX_FILE_H_
#define BULKHEAD_SERVER_SOURCE_INDEX_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/index_header.h"

namespace bulkhead {

// Writes a record index: payload first, front to back, then the header that makes it valid. Not
// thread-safe.
class IndexFileWriter {
 public:
  // `fd`: a regular file that is empty; stays the caller's.
  explicit IndexFileWriter(int fd);

  // Appends to the payload. FILE_UNREADABLE (UNAVAILABLE) when the disk is full or fails.
  absl::Status Append(absl::string_view bytes);
  uint64_t payload_bytes() const { return payload_bytes_; }

  // Completes `header` with the payload's size and checksum and writes it. Call once, at the end.
  absl::Status Finish(IndexHeader header);

 private:
  absl::Status Flush();

  const int fd_;
  std::string buffer_;
  uint64_t payload_bytes_ = 0;
  uint64_t flushed_bytes_ = 0;
  uint32_t crc_ = 0;
};

// A record index, mapped for reading; both checksums were verified when it was opened. Movable;
// thread-safe.
class MappedIndex {
 public:
  // `name`: the indexed file, for messages. Errors: NOT_FOUND when there is no index at `path`,
  // DATA_LOSS (INDEX_DAMAGED) when it is damaged or of another kind than `kind`.
  static absl::StatusOr<MappedIndex> Open(const std::string& path, absl::string_view name,
                                          uint32_t kind);

  MappedIndex(MappedIndex&& other) noexcept;
  MappedIndex& operator=(MappedIndex&& other) noexcept;
  ~MappedIndex();

  const IndexHeader& header() const { return header_; }
  // Begins at a multiple of 8 bytes; lives as long as this object.
  absl::string_view payload() const;

 private:
  MappedIndex(void* data, size_t size) : data_(data), size_(size) {}

  void* data_ = nullptr;
  size_t size_ = 0;
  IndexHeader header_;
};

// DATA_LOSS (INDEX_DAMAGED) for the index of the file called `name`.
absl::Status IndexDamaged(absl::string_view name, absl::string_view what);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SOURCE_INDEX_FILE_H_
