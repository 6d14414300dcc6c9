#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// The start of every record index and every selection, and, with the names of classes behind it
// (class_names.h), the only part that the supervisor reads. The rest belongs to the source that
// wrote it. Fixed size, little-endian, with its own checksum. The payload is followed by a table of
// its blocks' checksums; the header holds the table's checksum.
struct IndexHeader {
  static constexpr size_t kBytes = 128;
  static constexpr uint32_t kVersion = 4;

  // Added to the kind of a selection, which lists the index's records that a pipeline reads.
  static constexpr uint32_t kSelection = 0x100;
  // Added to the kind of a file of URLs (BuildIndex.urls_only).
  static constexpr uint32_t kUrls = 0x200;

  uint32_t kind = 0;                   // Source.source_case() of the spec
  uint64_t record_count = 0;           // samples in the file, or kept by the selection
  uint64_t payload_bytes = 0;          // after the header
  uint32_t table_crc32c = 0;           // of the table of checksums at the end of the payload
  std::array<uint8_t, 32> checksum{};  // of the file's contents: its identity (docs/semantics.md)
  uint64_t file_size_bytes = 0;        // of the indexed file, when it was indexed
  int64_t file_mtime_ns = 0;
  uint64_t indexed_count = 0;  // for a selection: records of its index,
  uint64_t part_count = 0;     // and how many of them are in the split's part, before the filter
  uint64_t names_bytes = 0;    // of the names of classes at the payload's start; 0: none

  // The header as it is written to the file.
  std::array<uint8_t, kBytes> Serialize() const;
  // DATA_LOSS if `bytes` are too few, of another version, or damaged.
  static absl::StatusOr<IndexHeader> Parse(absl::string_view bytes);
};

}  // namespace bulkhead
