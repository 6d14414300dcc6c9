#pragma once

#include <string>
#include <vector>

#include "server/stages/running/batch_site.h"
#include "server/stages/running/batch_stage.h"
#include "server/stages/user/python_function.h"

namespace bulkhead {

// `python` in batch_stages: a user's function that gets views of the batch, with the rows as first
// dimension, and whose results are copied into the batch.
class PythonBatchStage final : public BatchStage {
 public:
  PythonBatchStage(const BatchSite& site, const v1::Python& spec);

  absl::Status Load(const UserCode& user_code) override;
  absl::Status RunOn(const BatchRows& batch) const override;

 private:
  // A tensor of the batch that the function reads or makes.
  struct Seen {
    size_t number = 0;  // in the schema
    v1::TensorSchema schema;
  };

  const v1::Python spec_;
  std::vector<Seen> inputs_;
  std::vector<Seen> outputs_;
  PythonFunction function_;
};

}  // namespace bulkhead
