#pragma once

#include <utility>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {

// `concat`: the values are its inputs and, last, its output. Sample error: IMAGE_SIZES_DIFFER.
class ConcatStage : public SampleStage {
 public:
  ConcatStage(StagePlace place, const v1::Concat& spec)
      : SampleStage(std::move(place)), stacks_(spec.stack()) {}
  absl::Status RunOn(const StageValues& values, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  static void Join(const StageValues& values, int channels, const StageContext& context);
  static void Stack(const StageValues& values, const StageContext& context);

  const bool stacks_;
};

}  // namespace bulkhead
