#ifndef BULKHEAD_SERVER_PIPELINE_WARP_STAGES_H_
#define BULKHEAD_SERVER_PIPELINE_WARP_STAGES_H_

#include <cstdint>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/color/augment.h"
#include "server/image/geometry/warp.h"
#include "server/pipeline/color_stages.h"
#include "server/pipeline/sample_stage.h"

namespace bulkhead {

// What is the same for all images that a stage warps.
struct WarpSettings {
  WarpMethod method;
  std::vector<uint8_t> fill;  // one value a channel
};

// `random_affine`. Draws NextUniform for the angle, the shifts along x and y, the scale and the
// shears along x and y, in this order, also for those that the spec leaves alone. Shifts are
// rounded to whole pixels, halves to the even one.
class RandomAffineStage : public ValueStage {
 public:
  RandomAffineStage(StagePlace place, const v1::RandomAffine& spec, size_t channels);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  WarpSettings settings_;
  DrawRange degrees_;
  double shift_x_ = 0;  // shares of the sides
  double shift_y_ = 0;
  DrawRange scale_;
  DrawRange shear_x_{0, 0};
  DrawRange shear_y_{0, 0};
};

// `random_perspective`. Draws NextUnit(), and acts when that is below the probability; then see
// RandomCorners. An image that no map takes to its corners (one pixel high or wide) stays.
class RandomPerspectiveStage : public ValueStage {
 public:
  RandomPerspectiveStage(StagePlace place, const v1::RandomPerspective& spec, size_t channels);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  WarpSettings settings_;
  double distortion_;
  double probability_;
};

// `rand_augment` and `trivial_augment`. Draws for each operation NextBelow(14), its number; for
// `trivial_augment` NextBelow(31), the magnitude; and NextBelow(2), 1 for the negative direction:
// all of them also where the operation has no use for them.
class AugmentStage : public ValueStage {
 public:
  AugmentStage(StagePlace place, const v1::RandAugment& spec, size_t channels);
  AugmentStage(StagePlace place, const v1::TrivialAugment& spec, size_t channels);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kInPlace; }

 private:
  WarpSettings settings_;
  AugmentSpace space_;
  int operations_;
  int magnitude_;  // of kRandAugment
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_WARP_STAGES_H_
