#pragma once

#include <cstdint>
#include <memory>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/codecs/decode_options.h"
#include "server/image/pixel_format.h"
#include "server/stages/geometry/crop.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {

// `decode_image`, together with the crop directly after it, if there is one: the crop
// decides which rows are needed, and thereby which damage counts (docs/semantics.md, "Errors"). A
// crop that fails needs all rows, so that damage is reported before the crop's error. A crop
// chooses its rectangle in the upright image; its rows are those of the stored one.
class DecodeStage : public ValueStage {
 public:
  DecodeStage(StagePlace place, const v1::DecodeImage& spec);
  // Takes a crop, and what the crop takes. With `fuse` only the crop's rectangle is decoded;
  // without it, for tests, all columns of the rows from the top to the rectangle's last one, which
  // is slower and gives the same bytes and verdicts.
  bool TakeBehind(std::unique_ptr<SampleStage>& next, bool fuse) override;
  absl::Status Run(Value& value, const StageContext& context) const override;
  bool TakesUnread() const override { return !deep_; }
  Effect effect() const override { return crop_ == nullptr ? Effect::kViews : crop_->effect(); }

 private:
  // Uses the image as it was decoded for the sample before, or decodes it whole for the next one.
  // False: the image is in no other sample, or cannot be decoded whole, and nothing was done.
  bool RunShared(Value& value, const StageContext& context, absl::Status& status) const;
  // The whole image, upright, in scratch.image.
  absl::StatusOr<ImageView> DecodeWhole(const Value& value, const StageContext& context) const;
  absl::Status RunUnfused(Value& value, ImageSize stored, int orientation, const Rect& rect,
                          const StageContext& context) const;
  // The whole image as uint16.
  absl::Status RunDeep(Value& value, int orientation, const StageContext& context) const;

  PixelFormat format_;
  uint64_t max_pixels_;
  DecodeOptions options_;
  bool exif_orientation_;
  bool deep_;
  std::unique_ptr<CropStage> crop_;  // null: the whole image
  bool fuse_ = true;
};

}  // namespace bulkhead
