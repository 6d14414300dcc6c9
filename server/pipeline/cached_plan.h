#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/value_store.h"
#include "server/pipeline/stage_plan.h"
#include "server/stages/running/value.h"

namespace bulkhead {

// The second plan of a chain with a cache stage: it is cut there, so that the stages before need
// not run if their values are in the cache. The first plan, uncut, decides bytes and verdicts; this
// one always gives the same bytes. Immutable.
struct CachedPlan {
  StagePlan plan;
  std::string label;          // "stages[2] cache"
  uint32_t number = 0;        // the cache stage's number for StageObserver
  StoreKey made_by;           // of everything that decides the kept values, except the record
  std::vector<size_t> reads;  // features of the source that the stages before the cut read

  // The key of kept values: the record's identity, its content, and the stages.
  StoreKey KeptKey(const StoreKey& record, const std::vector<Value>& values) const;
};

// Errors: those of PlanStages.
absl::StatusOr<CachedPlan> PlanCached(const SourceChain& chain, const SourceSignature& signature,
                                      const v1::BatchSchema& schema, bool fuse);

}  // namespace bulkhead
