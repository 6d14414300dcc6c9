#ifndef BULKHEAD_SERVER_PIPELINE_FOLLOW_H_
#define BULKHEAD_SERVER_PIPELINE_FOLLOW_H_

#include "absl/status/status.h"
#include "server/image/geometry/geometry.h"
#include "server/image/image.h"
#include "server/stages/declaration/annotation.h"
#include "server/stages/running/value.h"

namespace bulkhead {

// Where a feature that follows an image lies behind the last stage that moved it, for one thread:
// a move reads one half and writes the other.
class FollowerMemory {
 public:
  // What the feature does not lie in.
  ScratchBuffer& Free() { return halves_[1 - used_]; }
  // The feature lies there now.
  void TakeFree() { used_ = 1 - used_; }

  ScratchBuffer row;

 private:
  ScratchBuffer halves_[2];
  int used_ = 0;
};

// Moves `value`, declared as `annotation` says, as the image's pixels went: step by step, each
// rounded to the value's own type, so that it does not matter which running stage took how many
// steps. Sample error: IMAGE_SIZES_DIFFER, for a mask of another size than its image.
absl::Status Follow(const GeometryTrail& trail, const Annotation& annotation, Value& value,
                    FollowerMemory& memory);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_FOLLOW_H_
