#pragma once

#include "server/stages/running/sample_stage.h"
#include "server/stages/running/user_code.h"
#include "server/stages/user/python_function.h"
#include "server/stages/user/user_values.h"

namespace bulkhead {

// `python`: a user's function, in the interpreter that this worker lives in. The function gets
// views of the sample, and its results are copied into the stage's scratch.
class PythonStage final : public SampleStage {
 public:
  PythonStage(const StageSite& site, const v1::Python& spec);

  absl::Status Load(const UserCode& user_code) override;
  absl::Status RunOn(const StageValues& values, const StageContext& context) const override;
  Effect effect() const override { return Effect::kViews; }

 private:
  const v1::Python spec_;
  const UserValues values_;
  PythonFunction function_;
};

}  // namespace bulkhead
