#pragma once

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/types.pb.h"

namespace bulkhead::client_internal {

// Which batches of a stream have come, and the cursor that says so.
//
//   sequence:   0 1 2 3 | 4 5 6 7 8 …          ×: came
//               × × × × |   ×   ×
//                       mark 4: consumed is the state before batch 4, completed is {1, 3}
//
// In an ordered stream only the batch at the mark may come, in an unordered one any of the next 64
// of the epoch, each once. A stream that goes on from a cursor begins at that cursor's mark, and
// the batches that it calls completed do not come again. Not thread-safe.
class ArrivalWindow {
 public:
  // `world_size` and `batch_size` of the stream, which a cursor with completed batches needs. With
  // `assigned` any batch may come, since whoever asked for it knows; then this class keeps no
  // count.
  ArrivalWindow(const v1::Cursor& start, bool unordered, uint32_t world_size, uint64_t batch_size,
                bool assigned = false);

  // Whether that batch may come now; INTERNAL (PROTOCOL_VIOLATION) when it may not.
  absl::Status Check(const v1::BatchHeader& header) const;
  // It came. Checked before.
  void Add(const v1::BatchHeader& header);

  // The first batch that has not come.
  uint64_t mark() const { return mark_; }
  // Sets what this class knows: epoch, consumed, substitutions, completed and its two sizes.
  void Describe(v1::Cursor* cursor) const;

 private:
  struct State {
    uint64_t epoch = 0;
    uint64_t consumed = 0;
  };

  const bool unordered_;
  const bool assigned_;
  const uint32_t world_size_;
  const uint64_t batch_size_;
  uint64_t mark_ = 0;
  State state_;  // before the batch at the mark
  uint64_t substitutions_ = 0;
  std::map<uint64_t, State> ahead_;  // batches above the mark that came, and the state after each
};

}  // namespace bulkhead::client_internal
