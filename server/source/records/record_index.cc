#include "server/source/records/record_index.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"

namespace bulkhead {

absl::StatusOr<RecordIndex> RecordIndex::Open(const internal::v1::ResolvedFile& file,
                                              uint32_t kind) {
  BULKHEAD_ASSIGN_OR_RETURN(
      MappedIndex mapped,
      MappedIndex::Open(file.index_path(), file.name(), kind, MappedIndex::Checks::kOnUse));
  RecordIndex index(std::move(mapped));
  const absl::string_view payload = index.index_.payload();
  if (payload.size() < kIndexFooterBytes) return IndexDamaged(file.name(), "has no footer");
  BULKHEAD_RETURN_IF_ERROR(
      index.index_.Verify(payload.size() - kIndexFooterBytes, kIndexFooterBytes));
  const char* footer = payload.data() + payload.size() - kIndexFooterBytes;
  index.restart_count_ = LoadLittle<uint64_t>(footer);
  const uint32_t compression = LoadLittle<uint32_t>(footer + 8);
  if (!v1::Compression_IsValid(static_cast<int>(compression))) {
    return IndexDamaged(file.name(), "names an unknown compression");
  }
  index.compression_ = static_cast<v1::Compression>(compression);
  const uint64_t room = payload.size() - kIndexFooterBytes;
  if (index.restart_count_ > room / kStoredRestartBytes) {
    return IndexDamaged(file.name(), "has the wrong size");
  }
  const uint64_t offset_bytes = room - index.restart_count_ * kStoredRestartBytes;
  if (offset_bytes % 8 != 0 || offset_bytes / 8 != index.record_count() + 1) {
    return IndexDamaged(file.name(), "has the wrong size");
  }
  index.restarts_ = payload.data();
  index.offsets_ = payload.data() + index.restart_count_ * kStoredRestartBytes;
  return index;
}

absl::StatusOr<RecordIndex::Extent> RecordIndex::Find(uint64_t i) const {
  BULKHEAD_RETURN_IF_ERROR(index_.Verify(OffsetAt(i), 2 * sizeof(uint64_t)));
  const char* at = offsets_ + 8 * i;
  return Extent{LoadLittle<uint64_t>(at), LoadLittle<uint64_t>(at + 8)};
}

absl::Status RecordIndex::Recheck(uint64_t i) const {
  return index_.VerifyAgain(OffsetAt(i), 2 * sizeof(uint64_t));
}

uint64_t RecordIndex::OffsetAt(uint64_t i) const {
  return static_cast<uint64_t>(offsets_ - index_.payload().data()) + 8 * i;
}

const char* RecordIndex::restart(uint64_t i) const { return restarts_ + i * kStoredRestartBytes; }

absl::StatusOr<uint64_t> RecordIndex::RestartOffset(uint64_t i) const {
  BULKHEAD_RETURN_IF_ERROR(index_.Verify(i * kStoredRestartBytes, sizeof(uint64_t)));
  return LoadLittle<uint64_t>(restart(i));
}

absl::StatusOr<bool> RecordIndex::FindRestart(uint64_t output_offset, RestartPoint& point) const {
  uint64_t low = 0;
  uint64_t high = restart_count_;  // the first point behind output_offset lies in [low, high]
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    BULKHEAD_ASSIGN_OR_RETURN(const uint64_t found, RestartOffset(middle));
    if (found <= output_offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return false;
  BULKHEAD_RETURN_IF_ERROR(index_.Verify((low - 1) * kStoredRestartBytes, kStoredRestartBytes));
  const char* at = restart(low - 1);
  point.output_offset = LoadLittle<uint64_t>(at);
  point.input_offset = LoadLittle<uint64_t>(at + 8);
  point.bits = LoadLittle<uint32_t>(at + 16) & 7;
  const uint32_t window_bytes = LoadLittle<uint32_t>(at + 20);
  point.window =
      absl::string_view(at + 24, window_bytes <= RestartPoint::kMaxWindowBytes ? window_bytes : 0);
  return true;
}

}  // namespace bulkhead
