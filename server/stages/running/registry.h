#pragma once

#include <memory>

#include "server/stages/running/batch_site.h"
#include "server/stages/running/batch_stage.h"
#include "server/stages/running/sample_stage.h"
#include "server/stages/running/stage_site.h"

namespace bulkhead {

// The running stage for `site`; null for an unknown kind.
std::unique_ptr<SampleStage> MakeStage(const StageSite& site);
std::unique_ptr<BatchStage> MakeBatchStage(const BatchSite& site);

}  // namespace bulkhead
