#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/base/error.h"
#include "server/image/boxes/boxes.h"
#include "server/stages/declaration/annotation.h"
#include "server/stages/running/families.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {
namespace {

float NumberAt(const std::byte* data, size_t i) {
  float number;
  std::memcpy(&number, data + i * sizeof(float), sizeof(float));
  return number;
}

// `boxes`, `keypoints` and `mask`: the first value belongs to the second, its image, from here on.
// The image may still be encoded; then its crop has the original size. Sample errors:
// BAD_COORDINATES, for a coordinate that is not finite; IMAGE_SIZES_DIFFER, for a mask of another
// size than its image.
class DeclarationStage : public SampleStage {
 public:
  DeclarationStage(const StageSite& site, const google::protobuf::Message&)
      : SampleStage(site.place), annotation_(*site.Output().annotation) {
    const FeatureSignature& declared = site.Output();
    for (size_t i = 1; i < declared.shape.size(); ++i) numbers_per_row_ *= declared.shape[i];
  }

  absl::Status RunOn(const StageValues& values, const StageContext& context) const override {
    Value& value = values[0];
    const Value& image = values[1];
    const bool decoded = image.form != Value::Form::kEncoded;
    value.canvas = decoded ? image.image_size : ImageSize{};
    if (annotation_.kind == Annotation::Kind::kMask) {
      if (!decoded || value.image_size == image.image_size) return absl::OkStatus();
      return place().Name(SampleError(
          reason::kImageSizesDiffer,
          absl::StrCat("the mask has ", value.image_size.height, " x ", value.image_size.width,
                       " pixels (height x width), but its image ", image.image_size.height, " x ",
                       image.image_size.width)));
    }
    BULKHEAD_RETURN_IF_ERROR(CheckNumbers(value));
    value.visible = nullptr;
    if (annotation_.kind == Annotation::Kind::kBoxes) {
      const size_t count = value.size_bytes / kBoxBytes;
      value.visible = reinterpret_cast<float*>(context.scratch.row.Resize(count * sizeof(float)));
      std::fill(value.visible, value.visible + count, 1.0f);
    }
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kInPlace; }
  bool Changes(size_t i) const override { return i == 0; }

 private:
  absl::Status CheckNumbers(const Value& value) const {
    const size_t count = value.size_bytes / sizeof(float);
    for (size_t i = 0; i < count; ++i) {
      const float number = NumberAt(value.data, i);
      if (std::isfinite(number)) continue;
      return place().Name(
          SampleError(reason::kBadCoordinates,
                      absl::StrCat("row ", i / numbers_per_row_, " has the coordinate ", number,
                                   " (number ", i % numbers_per_row_,
                                   " of the row, counted from 0); correct or remove the record")));
    }
    return absl::OkStatus();
  }

  Annotation annotation_;
  size_t numbers_per_row_ = 1;
};

}  // namespace

std::vector<NumberedMaker> AnnotationStages() {
  using Stage = v1::Stage;
  return {
      {Stage::kBoxes, Make<DeclarationStage, &Stage::boxes>},
      {Stage::kKeypoints, Make<DeclarationStage, &Stage::keypoints>},
      {Stage::kMask, Make<DeclarationStage, &Stage::mask>},
  };
}

}  // namespace bulkhead
