#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/base/error.h"
#include "server/image/geometry/concat.h"
#include "server/image/geometry/crop.h"
#include "server/image/geometry/flip.h"
#include "server/image/geometry/pad.h"
#include "server/image/image.h"
#include "server/image/resize/legacy_resize.h"
#include "server/image/resize/resample.h"
#include "server/image/resize/resize.h"
#include "server/image/resize/resize_size.h"
#include "server/spec/stage_signature.h"
#include "server/stages/geometry/crop.h"
#include "server/stages/geometry/flip.h"
#include "server/stages/geometry/resize_pass.h"
#include "server/stages/running/common_options.h"
#include "server/stages/running/families.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {
namespace {

ResizeRule RuleOf(const v1::Resize& spec) {
  ResizeRule rule;
  rule.round = spec.rounding() == v1::ROUNDING_ROUND;
  rule.max_pixels = kDefaultMaxPixels;
  if (spec.shorter_side() > 0) {
    rule.by = ResizeRule::By::kShorterSide;
    rule.side = spec.shorter_side();
    rule.max_longer = spec.max_size();
  } else if (spec.longer_side() > 0) {
    rule.by = ResizeRule::By::kLongerSide;
    rule.side = spec.longer_side();
  } else if (spec.factor() > 0) {
    rule.by = ResizeRule::By::kFactor;
    rule.factor = spec.factor();
  } else {
    rule.size = SizeOf(spec);
  }
  return rule;
}

// Resizes `value`, an image, with antialiasing; `method` is linear or cubic.
void ResizeAntialiased(Value& value, ImageSize size, ResizeMethod method,
                       const StageContext& context) {
  const bool cubic = method == ResizeMethod::kCubic;
  const MutableImageView out = ResultImage(size, value.pixels.channels, context);
  ResampleImage(value.pixels, cubic ? ResampleFilter::kCubic : ResampleFilter::kLinear, out,
                context.scratch.resample);
  context.Moved(Geometry::Resize(value.pixels.size(), size));
  value.SetPixels(out);
}

// `resize`. Sample error: IMAGE_TOO_LARGE, for a computed size.
class ResizeStage : public ValueStage {
 public:
  ResizeStage(StagePlace place, const v1::Resize& spec)
      : ValueStage(std::move(place)),
        rule_(RuleOf(spec)),
        method_(MethodOf(spec.interpolation())),
        antialias_(spec.antialias()),
        centers_(spec.centers()) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    BULKHEAD_ASSIGN_OR_RETURN(const ImageSize size,
                              place().Name(ResizedSize(value.image_size, rule_)));
    if (IsPlain()) return place().Name(pass_.Run(value, size, method_, context));
    if (antialias_) {
      ResizeAntialiased(value, size, method_, context);
      return absl::OkStatus();
    }
    const MutableImageView out = ResultImage(size, value.pixels.channels, context);
    const bool nearest = method_ == ResizeMethod::kNearest;
    (nearest ? LegacyResizeNearest : LegacyResizeLinear)(value.pixels, *OldCenters(), out,
                                                         context.scratch.row);
    context.Moved(Geometry::Resize(value.image_size, size, OldCenters()));
    value.SetPixels(out);
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }
  bool TakeBehind(std::unique_ptr<SampleStage>& next, bool fuse) override {
    return fuse && IsPlain() && pass_.TakeBehind(next);
  }

  bool TakeBefore(std::unique_ptr<SampleStage>& previous, bool fuse) override {
    return fuse && IsPlain() && pass_.TakeBefore(previous);
  }

 private:
  // Resizes like OpenCV, in one pass with neighbouring stages.
  bool IsPlain() const { return !antialias_ && !OldCenters().has_value(); }
  // Absent: half-pixel centres.
  std::optional<LegacyCenters> OldCenters() const {
    if (centers_ == v1::PIXEL_CENTERS_CORNER) return LegacyCenters::kCorner;
    if (centers_ == v1::PIXEL_CENTERS_ALIGNED) return LegacyCenters::kAligned;
    return std::nullopt;
  }

  ResizeRule rule_;
  ResizeMethod method_;
  bool antialias_;
  v1::PixelCenters centers_;
  ResizePass pass_;
};

// `letterbox`.
class LetterboxStage : public ValueStage {
 public:
  LetterboxStage(StagePlace place, const v1::Letterbox& spec)
      : ValueStage(std::move(place)),
        size_(SizeOf(spec)),
        method_(MethodOf(spec.interpolation())),
        fill_(FillOf(spec)) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    const ImageSize inner = FittingSize(value.image_size, size_);
    const Rect kept = {(size_.height - inner.height) / 2, (size_.width - inner.width) / 2,
                       inner.height, inner.width};
    const MutableImageView out = ResultImage(size_, value.pixels.channels, context);
    BULKHEAD_RETURN_IF_ERROR(
        place().Name(ResizeImage(value.pixels, method_, out.Crop(kept), context.scratch.resizer,
                                 context.target != nullptr)));
    FillAround(out, kept, fill_);
    context.Moved(Geometry::Resize(value.image_size, inner));
    context.Moved(Geometry::Place(inner, size_, kept.top, kept.left));
    value.SetPixels(out);
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }

 private:
  ImageSize size_;
  ResizeMethod method_;
  PixelFill fill_;
};

// `center_crop`: the result is a view.
class CenterCropStage : public CropStage {
 public:
  CenterCropStage(StagePlace place, const v1::CenterCrop& spec)
      : CropStage(std::move(place)), size_(SizeOf(spec)) {}
  absl::StatusOr<Rect> ChooseRect(ImageSize size, const SampleKey&) const override {
    return place().Name(CenterCropRect(size, size_));
  }

 private:
  ImageSize size_;
};

// `five_crop`: four corners and the centre, stacked.
class FiveCropStage final : public ValueStage {
 public:
  FiveCropStage(StagePlace place, const v1::FiveCrop& spec)
      : ValueStage(std::move(place)), size_(SizeOf(spec)) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    const MutableImageView& pixels = value.pixels;
    BULKHEAD_ASSIGN_OR_RETURN(const Rect centre,
                              place().Name(CenterCropRect(pixels.size(), size_)));
    const int right = pixels.width - size_.width;
    const int bottom = pixels.height - size_.height;
    Rect rects[] = {centre, centre, centre, centre, centre};
    for (int corner = 0; corner < 4; ++corner) {
      rects[corner].left = corner % 2 == 0 ? 0 : right;
      rects[corner].top = corner < 2 ? 0 : bottom;
    }
    const size_t row_bytes = static_cast<size_t>(size_.width) * pixels.channels;
    const size_t size_bytes = std::size(rects) * row_bytes * size_.height;
    std::byte* const result = context.Result(size_bytes);
    std::byte* at = result;
    for (const Rect& rect : rects) {
      const MutableImageView crop = pixels.Crop(rect);
      for (int y = 0; y < crop.height; ++y, at += row_bytes)
        std::memcpy(at, crop.row(y), row_bytes);
    }
    value.is_image = false;
    value.image_size = size_;
    value.stacked = static_cast<int>(std::size(rects));
    value.SetElements(v1::DTYPE_UINT8, result, size_bytes);
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }

 private:
  ImageSize size_;
};

// `random_resized_crop`.
class RandomResizedCropStage : public CropStage {
 public:
  RandomResizedCropStage(StagePlace place, const v1::RandomResizedCrop& spec)
      : CropStage(std::move(place)),
        size_(SizeOf(spec)),
        method_(MethodOf(spec.interpolation())),
        antialias_(spec.antialias()),
        bounds_{spec.scale(0), spec.scale(1), spec.ratio(0), spec.ratio(1)} {}
  absl::StatusOr<Rect> ChooseRect(ImageSize size, const SampleKey& key) const override {
    SampleRandom random = place().Random(key);
    return RandomCropRect(size, bounds_, random);
  }

  absl::Status Finish(Value& value, const StageContext& context) const override {
    if (!antialias_) return place().Name(pass_.Run(value, size_, method_, context));
    ResizeAntialiased(value, size_, method_, context);
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }

 private:
  ResizePass* pass() override { return antialias_ ? nullptr : &pass_; }

  ImageSize size_;
  ResizeMethod method_;
  bool antialias_;
  RandomCropBounds bounds_;
  ResizePass pass_;
};

// `random_crop` without padding: the result is a view. Draws as RandomPlaceRect.
class RandomCropStage : public CropStage {
 public:
  RandomCropStage(StagePlace place, const v1::RandomCrop& spec)
      : CropStage(std::move(place)), size_(SizeOf(spec)) {}
  absl::StatusOr<Rect> ChooseRect(ImageSize size, const SampleKey& key) const override {
    SampleRandom random = place().Random(key);
    return place().Name(RandomPlaceRect(size, size_, random));
  }

 private:
  ImageSize size_;
};

// `random_crop` with padding: the same rectangle of the padded image; only the rectangle is made.
class PaddedRandomCropStage : public ValueStage {
 public:
  PaddedRandomCropStage(StagePlace place, const v1::RandomCrop& spec)
      : ValueStage(std::move(place)),
        size_(SizeOf(spec)),
        padding_(MarginsOf(spec)),
        fill_(FillOf(spec)) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    const ImageSize padded = {value.image_size.height + padding_.top + padding_.bottom,
                              value.image_size.width + padding_.left + padding_.right};
    SampleRandom random = place().Random(context.key);
    BULKHEAD_ASSIGN_OR_RETURN(const Rect rect,
                              place().Name(RandomPlaceRect(padded, size_, random)));
    const MutableImageView out = ResultImage(size_, value.pixels.channels, context);
    const int top = padding_.top - rect.top;
    const int left = padding_.left - rect.left;
    PlaceImage(value.pixels, top, left, fill_, out);
    context.Moved(Geometry::Place(value.image_size, size_, top, left));
    value.SetPixels(out);
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }

 private:
  ImageSize size_;
  Margins padding_;
  PixelFill fill_;
};

std::unique_ptr<SampleStage> MakeRandomCrop(const StageSite& site) {
  const v1::RandomCrop& spec = site.stage.random_crop();
  if (spec.padding_size() == 0) return std::make_unique<RandomCropStage>(site.place, spec);
  return std::make_unique<PaddedRandomCropStage>(site.place, spec);
}

// `random_vertical_flip`: as RandomFlipStage, for top and bottom.
class RandomVerticalFlipStage : public ValueStage {
 public:
  RandomVerticalFlipStage(StagePlace place, const v1::RandomVerticalFlip& spec)
      : ValueStage(std::move(place)), probability_(spec.probability()) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    SampleRandom random = place().Random(context.key);
    if (random.NextUnit() >= probability_) return absl::OkStatus();
    FlipVerticallyInPlace(value.pixels, context.scratch.row);
    context.Moved(Geometry::FlipRows(value.pixels.size()));
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kInPlace; }

 private:
  double probability_;
};

// `size`, computed from an image, if it is not too large.
absl::StatusOr<ImageSize> Allowed(int64_t height, int64_t width) {
  if (height * width <= static_cast<int64_t>(kDefaultMaxPixels)) {
    return ImageSize{static_cast<int>(height), static_cast<int>(width)};
  }
  return SampleError(reason::kImageTooLarge,
                     absl::StrCat("with what is added the image would have ", height, " x ", width,
                                  " pixels (height x width), more than ", kDefaultMaxPixels,
                                  "; crop or resize first"));
}

// `pad`. Sample errors: IMAGE_TOO_LARGE, if the image is larger than `size`, or the result would
// have more pixels than a decoder may give.
class PadStage : public ValueStage {
 public:
  PadStage(StagePlace place, const v1::Pad& spec)
      : ValueStage(std::move(place)), padding_(MarginsOf(spec)), fill_(FillOf(spec)) {
    if (spec.size_size() > 0) size_ = SizeOf(spec);
  }

  absl::Status Run(Value& value, const StageContext& context) const override {
    BULKHEAD_ASSIGN_OR_RETURN(const ImageSize size, place().Name(PaddedSize(value.image_size)));
    const MutableImageView out = ResultImage(size, value.pixels.channels, context);
    PlaceImage(value.pixels, padding_.top, padding_.left, fill_, out);
    context.Moved(Geometry::Place(value.image_size, size, padding_.top, padding_.left));
    value.SetPixels(out);
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }

 private:
  absl::StatusOr<ImageSize> PaddedSize(ImageSize image) const {
    if (size_.height > 0) {
      if (image.height <= size_.height && image.width <= size_.width) return size_;
      return SampleError(
          reason::kImageTooLarge,
          absl::StrCat("the image has ", image.height, " x ", image.width,
                       " pixels (height x width), more than the ", size_.height, " x ", size_.width,
                       " it should be padded to; crop or resize first"));
    }
    return Allowed(int64_t{image.height} + padding_.top + padding_.bottom,
                   int64_t{image.width} + padding_.left + padding_.right);
  }

  // The size of all results; 0 × 0: the image's size plus the padding.
  ImageSize size_;
  Margins padding_;
  PixelFill fill_;
};

// `random_zoom_out`. Draws NextUnit() and acts if that is below the probability; then NextUniform
// for the canvas's sides, and NextUnit() for the left and for the top, as shares of the added
// pixels; all truncated to whole pixels. Sample error: IMAGE_TOO_LARGE, if the canvas would have
// more pixels than a decoder may give.
class RandomZoomOutStage : public ValueStage {
 public:
  RandomZoomOutStage(StagePlace place, const v1::RandomZoomOut& spec)
      : ValueStage(std::move(place)),
        low_(spec.side_range(0)),
        high_(spec.side_range(1)),
        probability_(spec.probability()),
        fill_(FillOf(spec)) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    SampleRandom random = place().Random(context.key);
    if (random.NextUnit() >= probability_) return absl::OkStatus();
    const ImageSize image = value.image_size;
    const double factor = random.NextUniform(low_, high_);
    BULKHEAD_ASSIGN_OR_RETURN(const ImageSize canvas,
                              place().Name(Allowed(static_cast<int64_t>(image.height * factor),
                                                   static_cast<int64_t>(image.width * factor))));
    const int left = static_cast<int>((canvas.width - image.width) * random.NextUnit());
    const int top = static_cast<int>((canvas.height - image.height) * random.NextUnit());
    const MutableImageView out = ResultImage(canvas, value.pixels.channels, context);
    PlaceImage(value.pixels, top, left, fill_, out);
    context.Moved(Geometry::Place(image, canvas, top, left));
    value.SetPixels(out);
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }

 private:
  double low_;
  double high_;
  double probability_;
  PixelFill fill_;
};

// `concat`: the values are its inputs and, last, its output. Sample error: IMAGE_SIZES_DIFFER.
class ConcatStage : public SampleStage {
 public:
  ConcatStage(StagePlace place, const v1::Concat& spec)
      : SampleStage(std::move(place)), stacks_(spec.stack()) {}
  absl::Status RunOn(const StageValues& values, const StageContext& context) const override {
    const size_t inputs = values.size() - 1;
    const ImageSize size = values[0].image_size;
    int channels = 0;
    for (size_t i = 0; i < inputs; ++i) {
      const ImageSize other = values[i].image_size;
      if (other != size) {
        return place().Name(SampleError(
            reason::kImageSizesDiffer,
            absl::StrCat("image ", i + 1, " of the inputs has ", other.height, " x ", other.width,
                         " pixels (height x width), but the first has ", size.height, " x ",
                         size.width, "; resize them to one size first")));
      }
      channels += values[i].channels;
    }
    if (stacks_) {
      Stack(values, context);
    } else {
      Join(values, channels, context);
    }
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }

 private:
  // In both, the output is set last, because it may have the name of an input.
  static void Join(const StageValues& values, int channels, const StageContext& context) {
    const size_t inputs = values.size() - 1;
    const MutableImageView out = ResultImage(values[0].image_size, channels, context);
    int first_channel = 0;
    for (size_t i = 0; i < inputs; ++i) {
      CopyIntoChannels(values[i].pixels, first_channel, out);
      first_channel += values[i].channels;
    }
    values[inputs].SetPixels(out);
  }

  static void Stack(const StageValues& values, const StageContext& context) {
    const size_t inputs = values.size() - 1;
    const ImageSize size = values[0].image_size;
    const size_t row_bytes = static_cast<size_t>(size.width) * values[0].channels;
    const size_t size_bytes = inputs * row_bytes * size.height;
    std::byte* const result = context.Result(size_bytes);
    std::byte* at = result;
    for (size_t i = 0; i < inputs; ++i) {
      for (int y = 0; y < size.height; ++y, at += row_bytes) {
        std::memcpy(at, values[i].pixels.row(y), row_bytes);
      }
    }
    Value& output = values[inputs];
    output.is_image = false;
    output.image_size = size;
    output.stacked = static_cast<int>(inputs);
    output.channels = values[0].channels;
    output.channels_first = false;
    output.SetElements(v1::DTYPE_UINT8, result, size_bytes);
  }

  const bool stacks_;
};

}  // namespace

std::vector<NumberedMaker> GeometryStages() {
  using Stage = v1::Stage;
  return {
      {Stage::kResize, Make<ResizeStage, &Stage::resize>},
      {Stage::kLetterbox, Make<LetterboxStage, &Stage::letterbox>},
      {Stage::kCenterCrop, Make<CenterCropStage, &Stage::center_crop>},
      {Stage::kRandomCrop, MakeRandomCrop},
      {Stage::kRandomResizedCrop, Make<RandomResizedCropStage, &Stage::random_resized_crop>},
      {Stage::kFiveCrop, Make<FiveCropStage, &Stage::five_crop>},
      {Stage::kRandomHorizontalFlip, Make<RandomFlipStage, &Stage::random_horizontal_flip>},
      {Stage::kRandomVerticalFlip, Make<RandomVerticalFlipStage, &Stage::random_vertical_flip>},
      {Stage::kPad, Make<PadStage, &Stage::pad>},
      {Stage::kRandomZoomOut, Make<RandomZoomOutStage, &Stage::random_zoom_out>},
      {Stage::kConcat, Make<ConcatStage, &Stage::concat>},
  };
}

}  // namespace bulkhead
