#include "server/stages/running/families.h"
#include "server/stages/user/native.h"
#include "server/stages/user/python.h"
#include "server/stages/user/python_batch.h"

namespace bulkhead {

std::vector<NumberedMaker> UserStages() {
  using Stage = v1::Stage;
  return {
      {Stage::kPython, Make<PythonStage, &Stage::python>},
      {Stage::kNative, Make<NativeStage, &Stage::native>},
  };
}

std::vector<NumberedBatchMaker> UserBatchStages() {
  return {{v1::BatchStage::kPython, MakeBatch<PythonBatchStage, &v1::BatchStage::python>}};
}

}  // namespace bulkhead
