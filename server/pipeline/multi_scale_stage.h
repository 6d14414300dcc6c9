#ifndef BULKHEAD_SERVER_PIPELINE_MULTI_SCALE_STAGE_H_
#define BULKHEAD_SERVER_PIPELINE_MULTI_SCALE_STAGE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "server/pipeline/batch_stage.h"
#include "server/spec/annotation.h"

namespace bulkhead {

// An image of a batch that is scaled, or a mask of it.
struct ScaledImage {
  size_t number = 0;       // in the schema
  size_t size_number = 0;  // of the output that tells its size
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  size_t row_bytes = 0;
  ImageSize size;
  size_t channels = 0;
  bool channels_first = false;
  bool linear = true;  // else nearest: a mask
};

// `multi_scale`: scales all images of a batch, with what belongs to them, to one size, where they
// lie and without gaps, and zeroes what is behind them. Draws NextBelow(number of sizes).
class MultiScaleStage final : public BatchStage {
 public:
  // Boxes or points in pixels.
  struct Coordinates {
    size_t number = 0;  // in the schema
    size_t row_bytes = 0;
    Annotation annotation;
  };
  struct Scaled {
    std::vector<ScaledImage> images;  // the image, then its masks; all of one size
    std::vector<Coordinates> coordinates;
  };
  // `sizes`: lengths of the longer side, none above the image's.
  MultiScaleStage(StagePlace place, std::vector<uint32_t> sizes, Scaled scaled)
      : BatchStage(std::move(place)), sizes_(std::move(sizes)), scaled_(std::move(scaled)) {}

  absl::Status RunOn(const BatchRows& batch) const override;

 private:
  const std::vector<uint32_t> sizes_;
  const Scaled scaled_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_MULTI_SCALE_STAGE_H_
