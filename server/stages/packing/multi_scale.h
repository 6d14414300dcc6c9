#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/stages/declaration/annotation.h"
#include "server/stages/running/batch_site.h"
#include "server/stages/running/batch_stage.h"

namespace bulkhead {

// An image of a batch that is scaled, or its mask.
struct ScaledImage : BatchTensor {
  size_t size_number = 0;  // the number of the output with its size
  bool linear = true;      // else nearest: a mask
};

// `multi_scale`: scales all images of a batch, with their boxes, points and masks, to one size, in
// place and without gaps, and zeroes the memory after them. Draws NextBelow(number of sizes).
class MultiScaleStage final : public BatchStage {
 public:
  MultiScaleStage(const BatchSite& site, const v1::MultiScale& spec);

  absl::Status RunOn(const BatchRows& batch) const override;

 private:
  // Boxes or points in pixels.
  struct Coordinates {
    size_t number = 0;  // in the schema
    size_t row_bytes = 0;
    Annotation annotation;
  };

  std::vector<uint32_t> sizes_;      // lengths of the longer side, none above the image's
  std::vector<ScaledImage> images_;  // the image, then its masks; all of one size
  std::vector<Coordinates> coordinates_;
};

}  // namespace bulkhead
