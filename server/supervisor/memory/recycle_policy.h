#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/supervisor/memory/memory_growth.h"

namespace bulkhead {

// When workers are replaced while they still work.
struct RecycleConfig {
  // A worker is due if a later replacement would not be ready before the worker reaches this share
  // of its quota.
  static constexpr double kQuotaShare = 0.95;
  // A fast-leaking worker is looked at before its next lease could take it to this share. The rest
  // covers memory that samples take and give back.
  static constexpr double kLookShare = 0.85;
  // A worker that its next samples could take to this share of its quota is full.
  static constexpr double kFullShare = 0.97;
  // Workers with equal growth are replaced at shares spread between these, so that they are not due
  // together.
  static constexpr double kFirstShare = 0.55;
  static constexpr double kLastShare = 0.75;

  uint64_t max_samples = 0;                           // 0: no limit
  absl::Duration max_age = absl::InfiniteDuration();  // no limit
  double slowdown = 3;                                // 0: no limit
  bool by_growth = true;
};

// Why a worker is due, with figures.
struct RecycleDecision {
  v1::RecycleCause cause = v1::RECYCLE_CAUSE_UNSPECIFIED;
  std::string reason;  // human-readable
  // Samples left before the worker reaches its quota; the worker with the fewest is replaced first.
  double samples_left = 0;
  // False: the worker may stop growing before it is full. Its successor warms up, but takes over
  // only if it does not.
  bool is_certain = true;
};

// The facts of the decision.
struct RecycleFacts {
  const MemoryGrowth* growth = nullptr;
  uint64_t quota_bytes = 0;
  uint32_t slot = 0;           // of
  uint32_t slot_count = 1;     // workers
  uint64_t held_samples = 0;   // samples it must finish before it can go
  uint64_t least_samples = 1;  // of a lease that can be given to it
  // Growth of this pipeline's workers is known not to stop below the quota: one has been full, or
  // this one has grown steadily for longer than tables and caches take to fill.
  bool outgrows = false;
  absl::Duration warm_up;  // from the request of a replacement until it can take over
  absl::Duration age;
};

// The samples that take a worker to at most kFullShare of its quota, if its memory grows on as it
// did over its last looks; without growth any number.
uint64_t SamplesUntilFull(const MemoryGrowth& growth, uint64_t quota_bytes);

// Whether growth, samples served or age make a worker due. Pure.
std::optional<RecycleDecision> DecideRecycling(const RecycleConfig& config,
                                               const RecycleFacts& facts);

// "growing by 1.0MiB a sample at 540 samples a second, too fast to …" if even a replacement
// requested as soon as the growth is known would be too late; else empty.
std::string TooFastToRecycle(const RecycleFacts& facts);

}  // namespace bulkhead
