#pragma once

#include "bulkhead/stage.h"
#include "server/stages/running/sample_stage.h"
#include "server/stages/running/user_code.h"
#include "server/stages/user/user_values.h"

namespace bulkhead {

// `native`: a user's function in a shared library, with the C interface of bulkhead/stage.h. Of
// exceptions that leave the library, std::bad_alloc is thrown on; others become sample errors.
// Libraries stay loaded for the process's life.
class NativeStage final : public SampleStage {
 public:
  NativeStage(const StageSite& site, const v1::Native& spec);
  ~NativeStage() override;

  absl::Status Load(const UserCode& user_code) override;
  absl::Status RunOn(const StageValues& values, const StageContext& context) const override;
  Effect effect() const override { return Effect::kViews; }

 private:
  absl::Status Open(const UserCode& user_code);
  absl::Status CreateState();
  absl::Status Finish(const BulkheadOutput* filled, const StageValues& values) const;

  const v1::Native spec_;
  const UserValues values_;
  // Set by Load.
  const BulkheadStage* library_ = nullptr;
  void* state_ = nullptr;
};

}  // namespace bulkhead
