#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "client/cpp/internal/rpc/wire.h"
#include "server/arena/arena.h"
#include "server/arena/payload_ranges.h"

namespace bulkhead {

// Puts the parts of a stream's batches together in the slots of an arena.
//
//   Add, Add … ─▶ a batch is whole ─▶ its reader ─▶ Free
//
// Not thread-safe.
class BatchSlots {
 public:
  // What became of a part.
  enum class Added {
    kNothing,  // no slot is free: add it again after a Free
    kPart,
    kBatch,  // it was the batch's last one
  };

  // Room for `usable` batches of this schema, at least one. The arena has one slot more,
  // since clients hold at most all slots but one; it is never used and takes no memory. Errors:
  // those of Arena::Create; RESOURCE_EXHAUSTED for more bytes than can be counted.
  static absl::StatusOr<BatchSlots> Create(const v1::BatchSchema& schema, uint32_t usable);

  const std::shared_ptr<Arena>& arena() const { return arena_; }

  // Copies the part's bytes. PROTOCOL_VIOLATION (INTERNAL) for a part that is not the next one: all
  // bytes of a batch's samples come once, in the order of the memory.
  absl::StatusOr<Added> Add(client_internal::PartView part);
  // The batch that is being put together, or that the last Add completed, and its slot.
  const v1::BatchHeader& header() const { return header_; }
  uint32_t slot() const { return slot_; }
  // Nobody reads the slot any more.
  void Free(uint32_t slot) { free_.insert(slot); }

 private:
  BatchSlots(v1::BatchSchema schema, std::shared_ptr<Arena> arena, uint32_t usable);

  absl::StatusOr<bool> Begin(const std::string& header);

  v1::BatchSchema schema_;

  std::shared_ptr<Arena> arena_;
  std::set<uint32_t> free_;  // the lowest is used first, so that few pages are touched
  v1::BatchHeader header_;
  uint32_t slot_ = 0;
  std::optional<std::deque<PayloadRange>> missing_;  // of the batch; absent between batches
};

}  // namespace bulkhead
