#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead::tools {

// Which features of packed records are images, and which are coordinates in their pixels.
struct RecodingPlan {
  struct Image {
    std::string name;
    bool upright = false;                  // decode_image turns it
    std::vector<std::string> coordinates;  // float32 features: x and y in turn
  };
  std::vector<Image> images;
  // Features with rows of four float32, as boxes have them, that no stage declares.
  std::vector<std::string> undeclared;

  // Of the stages of `spec`, which is normalized: the images are the inputs of decode_image, the
  // coordinates those of `boxes` and `keypoints` that are not relative. INVALID_ARGUMENT if there
  // is no image, if a JPEG of three channels cannot stand for one (a mask, alpha, 16 bits), or if
  // coordinates are declared behind a stage that may have moved them.
  static absl::StatusOr<RecodingPlan> Of(const v1::PipelineSpec& spec);
};

}  // namespace bulkhead::tools
