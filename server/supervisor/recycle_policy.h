#ifndef BULKHEAD_SERVER_SUPERVISOR_RECYCLE_POLICY_H_
#define BULKHEAD_SERVER_SUPERVISOR_RECYCLE_POLICY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/supervisor/memory_growth.h"

namespace bulkhead {

// When workers are replaced while they work.
struct RecycleConfig {
  // A replacement is due when it would otherwise be ready too late: at this share of the quota.
  static constexpr double kQuotaShare = 0.95;
  // Workers that grow alike are replaced at shares spread between these, so that they do not come
  // due together.
  static constexpr double kFirstShare = 0.55;
  static constexpr double kLastShare = 0.75;

  uint64_t max_samples = 0;                           // 0: never for that
  absl::Duration max_age = absl::InfiniteDuration();  // never for that
  double slowdown = 3;                                // 0: never for that
  bool by_growth = true;
};

// Why a worker is due, with the figures.
struct RecycleDecision {
  v1::RecycleCause cause = v1::RECYCLE_CAUSE_UNSPECIFIED;
  std::string reason;  // for people
  // Samples that the worker may still do before its quota bites; the fewest first.
  double samples_left = 0;
};

// What there is to decide by.
struct RecycleFacts {
  const MemoryGrowth* growth = nullptr;
  uint64_t quota_bytes = 0;
  uint32_t slot = 0;          // of
  uint32_t slot_count = 1;    // workers
  uint64_t held_samples = 0;  // that it will have to do before it can go
  absl::Duration warm_up;     // from asking for a replacement until it can take over
  absl::Duration age;
};

// Whether growth, samples served or age make a worker due. Pure.
std::optional<RecycleDecision> DecideRecycling(const RecycleConfig& config,
                                               const RecycleFacts& facts);

// "growing by 1.0MiB a sample at 540 samples a second, too fast to …" when even a replacement that
// is asked for as soon as the growth is known comes too late; else empty.
std::string TooFastToRecycle(const RecycleFacts& facts);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_RECYCLE_POLICY_H_
