#ifndef BULKHEAD_SERVER_PIPELINE_COLOR_STAGES_H_
#define BULKHEAD_SERVER_PIPELINE_COLOR_STAGES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/color/pixel_ops.h"
#include "server/image/geometry/erase.h"
#include "server/pipeline/sample_stage.h"

namespace bulkhead {

// Bounds of a number that is drawn for each sample.
struct DrawRange {
  double low;
  double high;

  // Of a normalized list: its two numbers, or `otherwise` when it is empty.
  static DrawRange Of(const google::protobuf::RepeatedField<double>& list, DrawRange otherwise) {
    return list.size() == 2 ? DrawRange{list[0], list[1]} : otherwise;
  }
  double Draw(SampleRandom& random) const { return random.NextUniform(low, high); }
};

// `fill` for an image of `channels`: one value a channel.
std::vector<uint8_t> FillOf(const google::protobuf::RepeatedField<uint32_t>& fill, size_t channels);

// A stage that changes an image's pixels where they are, or, by its probability, leaves them.
// Draws: NextUnit(), and acts when that is below the probability; then what Change draws.
class ChanceStage : public ValueStage {
 public:
  ChanceStage(StagePlace place, double probability)
      : ValueStage(std::move(place)), probability_(probability) {}
  absl::Status Run(Value& value, const StageContext& context) const final;
  Effect effect() const final { return Effect::kInPlace; }

 protected:
  virtual void Change(const MutableImageView& image, SampleRandom& random,
                      StageScratch& scratch) const = 0;

 private:
  double probability_;
};

// `color_jitter`. Draws further: the order of brightness, contrast, saturation and hue, as a
// shuffle of these four from the last place to the second (NextBelow(4), (3), (2)); then
// NextUniform for each of the four, in that same listing, also for those that do not change.
class ColorJitterStage : public ChanceStage {
 public:
  ColorJitterStage(StagePlace place, const v1::ColorJitter& spec);

 protected:
  void Change(const MutableImageView& image, SampleRandom& random,
              StageScratch& scratch) const override;

 private:
  std::array<DrawRange, 4> ranges_;
};

// `random_photometric_distort`. Draws for brightness, contrast, saturation and hue, in this order,
// NextUnit(), and changes it when that is below the probability, and NextUniform for the amount;
// NextUnit(), below 0.5 for contrast before saturation and hue, else behind them; NextUnit() for
// exchanging channels, by the probability, and a shuffle of these three from the last place to the
// second (NextBelow(3), (2)). All of it is always drawn.
class PhotometricDistortStage : public ValueStage {
 public:
  PhotometricDistortStage(StagePlace place, const v1::RandomPhotometricDistort& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kInPlace; }

 private:
  double probability_;
  std::array<DrawRange, 4> ranges_;
};

// `gaussian_blur`. Draws further: NextUniform for sigma.
class GaussianBlurStage : public ChanceStage {
 public:
  GaussianBlurStage(StagePlace place, const v1::GaussianBlur& spec);

 protected:
  void Change(const MutableImageView& image, SampleRandom& random,
              StageScratch& scratch) const override;

 private:
  int width_;
  DrawRange sigma_;
};

// `random_erasing`. Draws further: see RandomEraseRect.
class RandomErasingStage : public ChanceStage {
 public:
  RandomErasingStage(StagePlace place, const v1::RandomErasing& spec, size_t channels);

 protected:
  void Change(const MutableImageView& image, SampleRandom& random,
              StageScratch& scratch) const override;

 private:
  EraseBounds bounds_;
  std::vector<uint8_t> fill_;
};

// `grayscale`, `equalize`, `autocontrast`, `posterize` and `solarize`: nothing else is drawn.
template <typename Op>
class PixelStage : public ChanceStage {
 public:
  PixelStage(StagePlace place, double probability, Op op)
      : ChanceStage(std::move(place), probability), op_(op) {}

 protected:
  void Change(const MutableImageView& image, SampleRandom&, StageScratch&) const override {
    op_(image);
  }

 private:
  Op op_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_COLOR_STAGES_H_
