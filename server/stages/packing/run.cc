#include "server/stages/packing/multi_scale.h"
#include "server/stages/packing/pack_rows.h"
#include "server/stages/running/families.h"

namespace bulkhead {

std::vector<NumberedBatchMaker> PackingStages() {
  using Stage = v1::BatchStage;
  return {
      {Stage::kPackRows, MakeBatch<PackRowsStage, &Stage::pack_rows>},
      {Stage::kMultiScale, MakeBatch<MultiScaleStage, &Stage::multi_scale>},
  };
}

}  // namespace bulkhead
