#pragma once

#include <array>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/running/sample_stage.h"
#include "server/stages/running/stage_site.h"

namespace bulkhead {

// `pad_rows`: gives the feature and, if it has a name, the count. Sample error: OVER_BOUND, for too
// many rows, unless they are dropped.
class PadRowsStage : public SampleStage {
 public:
  PadRowsStage(const StageSite& site, const v1::PadRows& spec);
  absl::Status RunOn(const StageValues& values, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  size_t rows_;
  size_t element_bytes_;
  size_t row_bytes_;
  std::array<std::byte, 8> fill_{};  // one element
  bool truncates_;
};

}  // namespace bulkhead
