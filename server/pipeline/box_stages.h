#ifndef BULKHEAD_SERVER_PIPELINE_BOX_STAGES_H_
#define BULKHEAD_SERVER_PIPELINE_BOX_STAGES_H_

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/boxes/boxes.h"
#include "server/pipeline/sample_stage.h"
#include "server/spec/annotation.h"

namespace bulkhead {

// `boxes`, `keypoints` and `mask`: the first value belongs to the second, its image, from here on.
// The image may still be encoded; then its crop says how large it was. Sample errors:
// BAD_COORDINATES, for a coordinate that is not finite; IMAGE_SIZES_DIFFER, for a mask of another
// size than its image.
class DeclarationStage : public SampleStage {
 public:
  DeclarationStage(StagePlace place, const Annotation& annotation, size_t numbers_per_row);
  absl::Status RunOn(const StageValues& values, const StageContext& context) const override;
  Effect effect() const override { return Effect::kInPlace; }
  bool Changes(size_t i) const override { return i == 0; }

 private:
  absl::Status CheckNumbers(const Value& value) const;

  Annotation annotation_;
  size_t numbers_per_row_;
};

// `convert_boxes`.
class ConvertBoxesStage : public ValueStage {
 public:
  ConvertBoxesStage(StagePlace place, const BoxCoding& from, const BoxCoding& to);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  BoxCoding from_;
  BoxCoding to_;
};

// `sanitize_boxes`: the first value, and rows of the others. Sample error: ROWS_DIFFER, when one of
// them has not a row for each box.
class SanitizeBoxesStage : public SampleStage {
 public:
  SanitizeBoxesStage(StagePlace place, const v1::SanitizeBoxes& spec, const BoxCoding& coding);
  absl::Status RunOn(const StageValues& values, const StageContext& context) const override;
  Effect effect() const override { return Effect::kViews; }

 private:
  // Cuts `box` where the spec wants that, and says whether it stays; `visible` is the share of it
  // that was left before, and that is left now.
  bool Keeps(Box& box, ImageSize canvas, double& visible) const;
  absl::Status CheckRows(const StageValues& values) const;

  v1::SanitizeBoxes spec_;
  BoxCoding coding_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_BOX_STAGES_H_
