#pragma once

#include <memory>

#include "absl/status/status.h"
#include "server/image/image.h"
#include "server/image/resize/resize.h"
#include "server/stages/geometry/flip.h"
#include "server/stages/numbers/run.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {

// A resize together with the stages directly before and after it that can process its rows while
// they are in the CPU cache: mirroring, normalize, and the layout that a NormalizeStage includes.
// If LinearResizer supports the resize, it is one pass from the decoded pixels to the batch;
// otherwise the stages run one after the other, with the same bytes. Belongs to the stage that
// resizes. Immutable once the plan is made; thread-safe.
class ResizePass {
 public:
  // Like the functions of SampleStage, for stages that can run in the pass.
  bool TakeBehind(std::unique_ptr<SampleStage>& next);
  bool TakeBefore(std::unique_ptr<SampleStage>& previous);

  // Resizes `value`, an image, to `size`, and runs the other stages. The result is in
  // StageContext::Result. Errors carry the name of the stage they come from, except the resize's.
  absl::Status Run(Value& value, ImageSize size, ResizeMethod method,
                   const StageContext& context) const;

 private:
  struct Flips {
    bool before;
    bool after;
  };
  absl::Status RunRows(Value& value, ImageSize size, const StageContext& context) const;
  absl::Status RunByStages(Value& value, ImageSize size, ResizeMethod method, Flips flips,
                           const StageContext& context) const;

  // Null: none.
  std::unique_ptr<RandomFlipStage> flip_before_;
  std::unique_ptr<RandomFlipStage> flip_after_;
  std::unique_ptr<NormalizeStage> normalize_;
};

}  // namespace bulkhead
