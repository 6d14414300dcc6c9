#ifndef BULKHEAD_SERVER_BASE_INDEX_HEADER_H_
#define BULKHEAD_SERVER_BASE_INDEX_HEADER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// The first bytes of every record index and of every selection of its records: the only part of
// them that the supervisor reads. What follows belongs to the source that wrote it. Fixed size,
// little-endian, guarded by its own checksum; the payload is guarded in blocks, by a table of
// checksums after it that the header guards.
struct IndexHeader {
  static constexpr size_t kBytes = 128;
  static constexpr uint32_t kVersion = 2;

  // Added to the kind of a selection, which says which of an index's records a pipeline reads.
  static constexpr uint32_t kSelection = 0x100;

  uint32_t kind = 0;                   // Source.source_case() of the spec
  uint64_t record_count = 0;           // samples that the file holds; of a selection: that it keeps
  uint64_t payload_bytes = 0;          // bytes behind the header
  uint32_t table_crc32c = 0;           // of the table of checksums that ends them
  std::array<uint8_t, 32> checksum{};  // of the file's contents: its identity (docs/semantics.md)
  uint64_t file_size_bytes = 0;        // of the file that was indexed, when it was
  int64_t file_mtime_ns = 0;
  uint64_t indexed_count = 0;  // of a selection: records of the index that it was made from,
  uint64_t part_count = 0;     // and those of them in the split's part, before the filter

  // The header as written to the file.
  std::array<uint8_t, kBytes> Serialize() const;
  // Reads it back. DATA_LOSS when `bytes` are too few, of another version, or damaged.
  static absl::StatusOr<IndexHeader> Parse(absl::string_view bytes);
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_BASE_INDEX_HEADER_H_
