#pragma once

#include <cstdint>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/color/normalize.h"
#include "server/stages/running/sample_stage.h"
#include "server/stages/running/stage_site.h"

namespace bulkhead {

// `normalize`; for pixels also a `layout` to NCHW that follows it directly, in the same pass.
class NormalizeStage : public ValueStage {
 public:
  NormalizeStage(const StageSite& site, const v1::Normalize& spec);
  bool TakeBehind(std::unique_ptr<SampleStage>& next, bool fuse) override;
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

  const Normalizer& normalizer() const { return normalizer_; }
  bool to_channels_first() const { return to_channels_first_; }

 private:
  Normalizer normalizer_;
  bool takes_pixels_;
  bool to_channels_first_ = false;
};

}  // namespace bulkhead
