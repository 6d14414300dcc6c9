#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/source/index/index_file.h"

namespace bulkhead {

// A selection: which records of one file a pipeline reads. One bit per record, and a count before
// every 384 of them, 4/3 bits per record in all. The payload is blocks of 64 bytes, a cache line:
// u64 records kept before the block, 48 bytes of bits, the lowest first, u64
// checksum.

// Writes a selection, record by record. Not thread-safe; keeps one block.
class SelectionWriter {
 public:
  // `fd`: as IndexFileWriter's.
  explicit SelectionWriter(int fd) : out_(fd) {}

  absl::Status Add(bool keep);
  uint64_t indexed_count() const { return indexed_; }
  uint64_t kept_count() const { return kept_; }

  // Completes `header` (kind of the source, file and checksum as in the index, part_count) and
  // writes it. Call once, at the end.
  absl::Status Finish(IndexHeader header);

 private:
  absl::Status Flush();

  IndexFileWriter out_;
  uint64_t indexed_ = 0;
  uint64_t kept_ = 0;
  uint64_t words_[7] = {};
};

// The view of a mapped selection. Immutable, thread-safe.
class SelectionIndex {
 public:
  // Opens the selection of a file that has one; `kind` is that of its source. Errors: those of
  // MappedIndex::Open.
  static absl::StatusOr<SelectionIndex> Open(const internal::v1::ResolvedFile& file, uint32_t kind);

  // The number of records of the file, and of kept ones.
  uint64_t indexed_count() const { return index_.header().indexed_count; }
  uint64_t kept_count() const { return index_.header().record_count; }

  // The k-th kept record; k < kept_count(). O(log records). DATA_LOSS (INDEX_DAMAGED) if a part of
  // the selection that this needs is damaged.
  absl::StatusOr<uint64_t> Select(uint64_t k) const;

 private:
  SelectionIndex(MappedIndex index, std::string name)
      : index_(std::move(index)), name_(std::move(name)) {}
  // The words of a block, without its checksum.
  using Block = std::array<uint64_t, 7>;
  absl::StatusOr<Block> Read(uint64_t block) const;

  MappedIndex index_;
  std::string name_;  // of the file, for messages
  uint64_t blocks_ = 0;
};

}  // namespace bulkhead
