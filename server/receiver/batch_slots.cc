#include "server/receiver/batch_slots.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/base/error.h"

namespace bulkhead {
namespace {

// Far above what any service can hold, and far below where sizes overflow.
constexpr uint64_t kMostBatchBytes = uint64_t{1} << 44;

absl::Status Misplaced() {
  return MakeError(absl::StatusCode::kInternal, reason::kProtocolViolation,
                   "the service sent a part of a batch that does not fit behind the one before it; "
                   "client and service may be of different versions");
}

}  // namespace

absl::StatusOr<BatchSlots> BatchSlots::Create(const v1::BatchSchema& schema, uint32_t usable) {
  const uint64_t batch_bytes = schema.batch_bytes();
  if (batch_bytes > kMostBatchBytes) {
    return absl::ResourceExhaustedError("a batch is larger than any memory");
  }
  constexpr uint64_t kUnit = Arena::kSlotAlignment;
  const uint64_t slot_bytes = std::max((batch_bytes + kUnit - 1) / kUnit, uint64_t{1}) * kUnit;
  BULKHEAD_ASSIGN_OR_RETURN(std::shared_ptr<Arena> arena, Arena::Create(slot_bytes, usable + 1));
  return BatchSlots(schema, std::move(arena), usable);
}

BatchSlots::BatchSlots(v1::BatchSchema schema, std::shared_ptr<Arena> arena, uint32_t usable)
    : schema_(std::move(schema)), arena_(std::move(arena)) {
  for (uint32_t slot = 0; slot < usable; ++slot) free_.insert(free_.end(), slot);
}

absl::StatusOr<BatchSlots::Added> BatchSlots::Add(client_internal::PartView part) {
  if (part.has_header != !missing_.has_value()) return Misplaced();
  if (part.has_header) {
    BULKHEAD_ASSIGN_OR_RETURN(const bool begun, Begin(part.header));
    if (!begun) return Added::kNothing;
  }
  if (part.data_bytes > 0) {
    if (missing_->empty()) return Misplaced();
    PayloadRange& next = missing_->front();
    // A schema that lies about its tensors does not lead out of the slot, either.
    const uint64_t room = arena_->slot_bytes() - std::min(part.offset, arena_->slot_bytes());
    if (part.offset != next.offset || part.data_bytes > std::min(next.bytes, room) ||
        !part.data.CopyTo(arena_->slot(slot_) + part.offset, part.data_bytes)) {
      return Misplaced();
    }
    next.offset += part.data_bytes;
    next.bytes -= part.data_bytes;
    if (next.bytes == 0) missing_->pop_front();
  }
  if (!missing_->empty()) return Added::kPart;
  missing_.reset();
  return Added::kBatch;
}

absl::StatusOr<bool> BatchSlots::Begin(const std::string& header) {
  if (free_.empty()) return false;
  if (!header_.ParseFromString(header)) return Misplaced();
  const std::vector<PayloadRange> ranges = PayloadRanges(schema_, header_.sample_count());
  uint64_t bytes = 0;
  for (const PayloadRange& range : ranges) bytes += range.bytes;
  if (bytes != header_.payload_bytes()) return Misplaced();
  slot_ = *free_.begin();
  free_.erase(free_.begin());
  missing_.emplace(ranges.begin(), ranges.end());
  return true;
}

}  // namespace bulkhead
