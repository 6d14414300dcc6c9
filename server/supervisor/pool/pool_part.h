#pragma once

#include "server/supervisor/pool/crew.h"
#include "server/supervisor/pool/pipeline_config.h"
#include "server/supervisor/pool/pool_context.h"
#include "server/supervisor/pool/pool_streams.h"

namespace bulkhead {

// What every part of a WorkerPool knows of its pool, which outlives it.
struct PoolPart {
  const PoolContext& context_;
  const PipelineConfig& config_;
  Crew& crew_;
  PoolStreams& streams_;
};

}  // namespace bulkhead
