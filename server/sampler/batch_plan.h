#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// One batch of one rank: its epoch and positions, and the cursor after it.
struct BatchRange {
  uint64_t epoch = 0;
  uint64_t first_position =
      0;  // positions ≥ samples_per_epoch (padding) wrap around to the epoch's start
  uint64_t sample_count = 0;  // padded ones included
  uint64_t valid_count = 0;   // the first this many are genuine
  uint64_t next_epoch = 0;    // cursor after this batch
  uint64_t next_consumed = 0;
  uint64_t batches_left_in_epoch = 0;  // on this rank, after this batch
};

// Cuts the epochs of a data set into batches for one rank, from a cursor on. With N samples, world
// size W, batch size B and c positions consumed, R = N − c, batch k of rank r is [c + k·W·B + r·B,
// +B); every rank gets the same number of batches: drop floor(R/(W·B)), pad ceil(R/(W·B)), partial
// the floor plus one global batch split as evenly as possible (ranks below the remainder get one
// more), unless fewer than W samples are left: those are dropped. Epochs after the cursor's begin
// at c = 0. A pure value; thread-safe.
class BatchPlan {
 public:
  struct Config {
    uint64_t samples_per_epoch = 0;  // N ≥ 1
    uint64_t batch_size = 1;         // B ≥ 1
    uint64_t world_size = 1;         // W ≥ 1
    uint64_t rank = 0;               // r < W
    v1::LastBatch last = v1::LAST_BATCH_PARTIAL;
    uint64_t first_epoch = 0;  // cursor
    uint64_t consumed = 0;     // cursor; ≤ N
  };
  explicit BatchPlan(const Config& config);

  // Batches of this rank in a whole epoch, and in the rest of the cursor's epoch.
  uint64_t batches_per_epoch() const;
  uint64_t batches_left_in_first_epoch() const;

  // OK if an epoch has batches. NO_SAMPLES: its samples do not fill one on every rank.
  absl::Status Check() const;

  // Batch `sequence` (0: the first after the cursor), counted through all epochs; O(1). Only when
  // batches_per_epoch() > 0 or sequence < batches_left_in_first_epoch().
  BatchRange At(uint64_t sequence) const;

 private:
  Config config_;
};

}  // namespace bulkhead
