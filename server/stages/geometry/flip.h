#pragma once

#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {

// `random_horizontal_flip`, in place. Draws NextUnit() once and mirrors when it is below the
// probability.
class RandomFlipStage : public ValueStage {
 public:
  RandomFlipStage(StagePlace place, const v1::RandomHorizontalFlip& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kInPlace; }

  // Whether it mirrors the sample of this key.
  bool Flips(const SampleKey& key) const;

 private:
  double probability_;
};

// `random_vertical_flip`, the same for top and bottom.
class RandomVerticalFlipStage : public ValueStage {
 public:
  RandomVerticalFlipStage(StagePlace place, const v1::RandomVerticalFlip& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kInPlace; }

 private:
  double probability_;
};

}  // namespace bulkhead
