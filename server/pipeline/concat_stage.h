#ifndef BULKHEAD_SERVER_PIPELINE_CONCAT_STAGE_H_
#define BULKHEAD_SERVER_PIPELINE_CONCAT_STAGE_H_

#include "server/pipeline/sample_stage.h"

namespace bulkhead {

// `concat`: the values are its inputs and, last, its output. Sample error: IMAGE_SIZES_DIFFER.
class ConcatStage : public SampleStage {
 public:
  using SampleStage::SampleStage;
  absl::Status RunOn(const StageValues& values, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_CONCAT_STAGE_H_
