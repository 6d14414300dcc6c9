#ifndef BULKHEAD_SERVER_PIPELINE_CACHED_PLAN_H_
#define BULKHEAD_SERVER_PIPELINE_CACHED_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/value_store.h"
#include "server/pipeline/stage_plan.h"
#include "server/stages/running/value.h"

namespace bulkhead {

// The second way through a chain with a cache stage: its stages cut there, so that what stands
// before need not run when its values are kept. The first way, uncut, is what decides bytes and
// verdicts; this one only ever gives the same bytes. Immutable.
struct CachedPlan {
  StagePlan plan;
  std::string label;          // "stages[2] cache"
  uint32_t number = 0;        // what StageObserver calls the cache stage
  uint64_t made_by = 0;       // hash of all that decides what is kept, but the record
  std::vector<size_t> reads;  // features of the source that the stages before the cut read

  // What is kept is found by who the record is, what it holds, and what is done to it.
  StoreKey KeyOf(uint64_t identity_hash, const std::vector<Value>& values) const;
};

// Errors: those of PlanStages.
absl::StatusOr<CachedPlan> PlanCached(const SourceChain& chain, const SourceSignature& signature,
                                      const v1::BatchSchema& schema, bool fuse);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_CACHED_PLAN_H_
