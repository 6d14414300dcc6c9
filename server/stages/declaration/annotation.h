#pragma once

#include <cstdint>
#include <string>

#include "bulkhead/v1/stages.pb.h"

namespace bulkhead {

// What a stage `boxes`, `keypoints` or `mask` declares of a feature: that it belongs to an image of
// the same sample and follows it. A plain value.
struct Annotation {
  enum class Kind { kBoxes, kKeypoints, kMask };
  Kind kind = Kind::kBoxes;
  std::string image;                                  // the image's feature
  v1::BoxFormat format = v1::BOX_FORMAT_UNSPECIFIED;  // kBoxes
  bool relative = false;                              // kBoxes, kKeypoints
  uint32_t fill = 0;                                  // kMask
  // The stage ("stages[2].python") that changed the image or the annotated feature without the
  // other, so that the feature cannot follow any more. Empty: it still follows.
  std::string lost_at;

  // Whether both follow an image of the same name in the same way.
  bool Agrees(const Annotation& other) const {
    return kind == other.kind && image == other.image && format == other.format &&
           relative == other.relative && fill == other.fill &&
           lost_at.empty() == other.lost_at.empty();
  }
};

}  // namespace bulkhead
