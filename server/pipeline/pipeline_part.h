#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "server/pipeline/cached_plan.h"
#include "server/pipeline/stage_plan.h"
#include "server/source/source.h"

namespace bulkhead {

// A source and the stages for its samples.
struct PipelinePart {
  std::unique_ptr<Source> source;
  StagePlan plan;
  uint64_t first_record = 0;
  // Of windows of frames: how far apart records are that may have frames in common; else 0.
  uint64_t frames_reach = 0;
  // The second plan, of a chain with a cache stage.
  std::optional<CachedPlan> cached;
};

}  // namespace bulkhead
