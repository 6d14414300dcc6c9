#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/index_header.h"

namespace bulkhead {

// A record index as a file:
//
//   header │ payload, in blocks of 64 KiB │ CRC32C of each block (u32) │ size of the payload (u64)
//           ◀────────────────────────────  header.payload_bytes  ────────────────────────────────▶
//
// The header's table_crc32c covers everything after the payload. So the index of a hundred million
// records need not be read as a whole to be trusted: a block is checked when it is first used.

// Writes a record index: payload first, front to back, then the header that makes it valid. Not
// thread-safe.
class IndexFileWriter {
 public:
  // `fd`: an empty regular file; stays the caller's.
  explicit IndexFileWriter(int fd);

  // Appends to the payload. FILE_UNREADABLE (UNAVAILABLE) if the disk is full or fails.
  absl::Status Append(absl::string_view bytes);
  uint64_t payload_bytes() const { return payload_bytes_; }

  // Completes `header` with the payload's size and checksum and writes it. Call once, at the end.
  absl::Status Finish(IndexHeader header);

 private:
  // Writes the buffer as a block.
  absl::Status WriteBlock();

  const int fd_;
  std::string buffer_;
  std::string table_;
  uint64_t payload_bytes_ = 0;
  uint64_t written_bytes_ = 0;
};

// A record index, mapped for reading. Movable; thread-safe.
class MappedIndex {
 public:
  // When the payload is verified: all of it in Open, or parts of it in Verify.
  enum class Checks { kAtOnce, kOnUse };

  // `name`: the indexed file, for messages. A `path` of HandedIndexPath names the descriptor, which
  // stays the caller's. DATA_LOSS (INDEX_DAMAGED) if there is no index at `path`, or it is damaged,
  // not of `kind`, or a file that users other than this one may open.
  static absl::StatusOr<MappedIndex> Open(const std::string& path, absl::string_view name,
                                          uint32_t kind, Checks checks = Checks::kAtOnce);

  const IndexHeader& header() const { return header_; }
  // Begins at a multiple of 8 bytes; lives as long as this object.
  absl::string_view payload() const;

  // Checks the blocks that hold [offset, offset + bytes) of the payload, each once, and that these
  // bytes can be read now. DATA_LOSS (INDEX_DAMAGED) if a block does not match its checksum, the
  // range lies outside, or the disk fails.
  absl::Status Verify(uint64_t offset, uint64_t bytes) const;
  // The same, and checks blocks again that were checked before: for data that does not match them.
  absl::Status VerifyAgain(uint64_t offset, uint64_t bytes) const;

 private:
  struct Unmap {
    void operator()(char* data) const;
    size_t size = 0;
  };
  MappedIndex(void* data, size_t size, absl::string_view name)
      : data_(static_cast<char*>(data), {size}), name_(name) {}
  static absl::StatusOr<MappedIndex> Map(int fd, absl::string_view name, uint32_t kind,
                                         Checks checks);
  // Finds payload and table, and checks the table.
  absl::Status ReadTable();
  // Whether these blocks match their checksums. Touches mapped memory.
  bool BlocksMatch(uint64_t first, uint64_t last) const;

  std::unique_ptr<char, Unmap> data_;
  std::string name_;
  IndexHeader header_;
  uint64_t payload_bytes_ = 0;
  const char* table_ = nullptr;
  std::unique_ptr<std::atomic<bool>[]> verified_;  // by block
};

// The path for MappedIndex::Open of an index that this process already holds open; its file may
// have been removed.
std::string HandedIndexPath(int fd);

// DATA_LOSS (INDEX_DAMAGED) for the index of the file `name`.
absl::Status IndexDamaged(absl::string_view name, absl::string_view what);

}  // namespace bulkhead
