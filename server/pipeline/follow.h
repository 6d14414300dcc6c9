#pragma once

#include "absl/status/status.h"
#include "server/image/geometry/geometry.h"
#include "server/image/image.h"
#include "server/stages/declaration/annotation.h"
#include "server/stages/running/value.h"

namespace bulkhead {

// The memory of a feature that follows an image, for one thread. It has two halves: a move reads
// one and writes the other.
class FollowerMemory {
 public:
  // The half that does not hold the feature.
  ScratchBuffer& Free() { return halves_[1 - used_]; }
  // The feature is in that half now.
  void TakeFree() { used_ = 1 - used_; }

  ScratchBuffer row;

 private:
  ScratchBuffer halves_[2];
  int used_ = 0;
};

// Moves `value`, declared by `annotation`, like the image's pixels. It moves step by step, and each
// step is rounded to the value's type, so the result does not depend on which stages were joined.
// Sample error: IMAGE_SIZES_DIFFER, for a mask of another size than its image.
absl::Status Follow(const GeometryTrail& trail, const Annotation& annotation, Value& value,
                    FollowerMemory& memory);

}  // namespace bulkhead
