#ifndef BULKHEAD_SERVER_PIPELINE_PYTHON_BATCH_STAGE_H_
#define BULKHEAD_SERVER_PIPELINE_PYTHON_BATCH_STAGE_H_

#include <string>
#include <vector>

#include "server/pipeline/batch_stage.h"
#include "server/pipeline/python_function.h"

namespace bulkhead {

// `python` in batch_stages: a function of the user's that sees the batch where it lies, rows in
// front, and whose results are copied over it.
class PythonBatchStage final : public BatchStage {
 public:
  // A tensor of the batch that the function sees or gives.
  struct BatchTensor {
    size_t number = 0;  // in the schema
    v1::TensorSchema schema;
  };
  PythonBatchStage(StagePlace place, const v1::Python& spec, std::vector<BatchTensor> inputs,
                   std::vector<BatchTensor> outputs)
      : BatchStage(std::move(place)),
        spec_(spec),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {}

  absl::Status Load(const UserCode& user_code) override;
  absl::Status RunOn(const BatchRows& batch) const override;

 private:
  const v1::Python spec_;
  const std::vector<BatchTensor> inputs_;
  const std::vector<BatchTensor> outputs_;
  PythonFunction function_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_PYTHON_BATCH_STAGE_H_
