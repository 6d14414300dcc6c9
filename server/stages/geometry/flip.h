#pragma once

#include <utility>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/geometry/flip.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {

// `random_horizontal_flip`, in place. Draws NextUnit() once and mirrors when it is below the
// probability.
class RandomFlipStage : public ValueStage {
 public:
  RandomFlipStage(StagePlace place, const v1::RandomHorizontalFlip& spec)
      : ValueStage(std::move(place)), probability_(spec.probability()) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    if (!Flips(context.key)) return absl::OkStatus();
    FlipHorizontallyInPlace(value.pixels, context.scratch.row);
    context.Moved(Geometry::FlipColumns(value.pixels.size()));
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kInPlace; }

  // Whether it mirrors the sample of this key.
  bool Flips(const SampleKey& key) const {
    SampleRandom random = place().Random(key);
    return random.NextUnit() < probability_;
  }

 private:
  double probability_;
};

}  // namespace bulkhead
