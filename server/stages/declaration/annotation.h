#ifndef BULKHEAD_SERVER_STAGES_DECLARATION_ANNOTATION_H_
#define BULKHEAD_SERVER_STAGES_DECLARATION_ANNOTATION_H_

#include <cstdint>
#include <string>

#include "bulkhead/v1/stages.pb.h"

namespace bulkhead {

// What a feature says about an image of the same sample, and follows it for: declared by a stage
// `boxes`, `keypoints` or `mask`. A plain value.
struct Annotation {
  enum class Kind { kBoxes, kKeypoints, kMask };
  Kind kind = Kind::kBoxes;
  std::string image;                                  // the feature that it is about
  v1::BoxFormat format = v1::BOX_FORMAT_UNSPECIFIED;  // kBoxes
  bool relative = false;                              // kBoxes, kKeypoints
  uint32_t fill = 0;                                  // kMask
  // The stage ("stages[2].python") that changed the image or the annotation without the other; it
  // cannot follow any more. Empty: it still belongs to the image.
  std::string lost_at;

  // Whether both follow images of the same name in the same way.
  bool Agrees(const Annotation& other) const {
    return kind == other.kind && image == other.image && format == other.format &&
           relative == other.relative && fill == other.fill &&
           lost_at.empty() == other.lost_at.empty();
  }
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_DECLARATION_ANNOTATION_H_
