#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/internal/batch/arrival_window.h"
#include "client/cpp/internal/batch/batch_data.h"
#include "client/cpp/internal/rpc/wire.h"

namespace bulkhead::client_internal {

// Assembles batches from their parts, or takes them as they lie in a slot. Checks everything: a
// part outside its batch, a gap, an overlap or a batch out of sequence is PROTOCOL_VIOLATION, and
// no byte of an earlier batch is left in a batch. Owned by one thread.
class Assembler {
 public:
  // `assigned`: as for ArrivalWindow.
  Assembler(std::shared_ptr<BatchContext> context, bool unordered, uint32_t world_size,
            bool assigned = false);

  // Takes the next part, copying its data. The batch when this part completed it, else null.
  absl::StatusOr<std::unique_ptr<BatchData>> Add(const PartView& part);

  // A whole batch that lies in `slot`.
  absl::StatusOr<std::unique_ptr<BatchData>> Adopt(const v1::BatchHeader& header,
                                                   std::unique_ptr<HeldSlot> slot);

  // What has come whole.
  const ArrivalWindow& window() const { return window_; }
  // Whether a batch has begun and is not complete.
  bool in_batch() const { return batch_ != nullptr; }
  // Of the batch that the last part belonged to.
  uint64_t sequence() const { return sequence_; }
  uint64_t payload_bytes() const { return payload_bytes_; }

 private:
  absl::Status Begin(const PartView& part);
  absl::Status CheckHeader(const v1::BatchHeader& header) const;
  // Makes the tensors of a batch that lies whole in `memory`, and counts it as arrived.
  absl::Status Finish(uint8_t* memory, BatchData* batch);
  // Where the part of tensor `i` that the batch fills begins and ends in its memory.
  std::pair<uint64_t, uint64_t> FilledRange(size_t i) const;
  absl::Status NoteFilled(uint64_t begin, uint64_t end);
  absl::Status CheckComplete() const;

  std::shared_ptr<BatchContext> context_;
  ArrivalWindow window_;
  std::unique_ptr<BatchData> batch_;
  uint64_t sequence_ = 0;
  uint64_t payload_bytes_ = 0;
  uint64_t received_bytes_ = 0;
  // For each tensor, where its contiguously filled part ends, in batch memory.
  std::vector<uint64_t> filled_until_;
};

}  // namespace bulkhead::client_internal
