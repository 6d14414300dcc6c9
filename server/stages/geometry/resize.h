#pragma once

#include <optional>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/geometry/pad.h"
#include "server/image/image.h"
#include "server/image/resize/resize.h"
#include "server/image/resize/resize_size.h"
#include "server/stages/geometry/resize_pass.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {

// Resizes `value`, an image, with antialiasing; `method` is linear or cubic.
void ResizeAntialiased(Value& value, ImageSize size, ResizeMethod method,
                       const StageContext& context);

// `resize`. Sample error: IMAGE_TOO_LARGE, for a computed size.
class ResizeStage : public ValueStage {
 public:
  ResizeStage(StagePlace place, const v1::Resize& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }
  bool TakeBehind(std::unique_ptr<SampleStage>& next, bool fuse) override {
    return fuse && IsPlain() && pass_.TakeBehind(next);
  }
  bool TakeBefore(std::unique_ptr<SampleStage>& previous, bool fuse) override {
    return fuse && IsPlain() && pass_.TakeBefore(previous);
  }

 private:
  // Resizes like OpenCV, in one pass with neighbouring stages.
  bool IsPlain() const;
  // Absent: half-pixel centres.
  std::optional<LegacyCenters> OldCenters() const;

  ResizeRule rule_;
  ResizeMethod method_;
  bool antialias_;
  v1::PixelCenters centers_;
  ResizePass pass_;
};

// `letterbox`.
class LetterboxStage : public ValueStage {
 public:
  LetterboxStage(StagePlace place, const v1::Letterbox& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  ImageSize size_;
  ResizeMethod method_;
  PixelFill fill_;
};

}  // namespace bulkhead
