#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/source/index/index_file.h"
#include "server/source/records/record_stream.h"

namespace bulkhead {

// A restart point as it lies in the payload of a RecordIndex: output offset, input offset, bits,
// window size, and the window in a field of fixed width. A multiple of 8 bytes.
inline constexpr size_t kStoredRestartBytes = 24 + RestartPoint::kMaxWindowBytes;
// The end of the payload: u64 restart count, u32 compression, u32 zero.
inline constexpr size_t kIndexFooterBytes = 16;

// Where the records of one file lie: the view of a mapped index, made by RecordIndexBuilder.
// Immutable, thread-safe.
//
// The payload: restart points (compressed files only), record_count + 1 offsets in the decompressed
// stream (u64; the last is the end of the last record), a footer.
class RecordIndex {
 public:
  // `kind`: Source.source_case(). Errors: those of MappedIndex::Open.
  static absl::StatusOr<RecordIndex> Open(const internal::v1::ResolvedFile& file, uint32_t kind);

  uint64_t record_count() const { return index_.header().record_count; }
  const IndexHeader& header() const { return index_.header(); }
  v1::Compression compression() const { return compression_; }
  // Where record i < record_count() lies in the decompressed stream.
  struct Extent {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  // DATA_LOSS (INDEX_DAMAGED) when that part of the index is damaged.
  absl::StatusOr<Extent> Find(uint64_t i) const;
  // Whether the index still says what it said when it was built: else INDEX_DAMAGED. For when
  // record i is not where Find said.
  absl::Status Recheck(uint64_t i) const;
  // The last restart point at or before `output_offset`; false when decompression has to begin at
  // the file's beginning. Errors as Find's.
  absl::StatusOr<bool> FindRestart(uint64_t output_offset, RestartPoint& point) const;

 private:
  explicit RecordIndex(MappedIndex index) : index_(std::move(index)) {}
  // The place of record i's offset in the payload.
  uint64_t OffsetAt(uint64_t i) const;
  const char* restart(uint64_t i) const;
  // The place of restart point i in the decompressed stream.
  absl::StatusOr<uint64_t> RestartOffset(uint64_t i) const;

  MappedIndex index_;
  v1::Compression compression_ = v1::COMPRESSION_NONE;
  uint64_t restart_count_ = 0;
  const char* restarts_ = nullptr;
  const char* offsets_ = nullptr;
};

}  // namespace bulkhead
