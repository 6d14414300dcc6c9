#ifndef BULKHEAD_SERVER_STAGES_RUNNING_REGISTRY_H_
#define BULKHEAD_SERVER_STAGES_RUNNING_REGISTRY_H_

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

#endif  // BULKHEAD_SERVER_STAGES_RUNNING_REGISTRY_H_
