#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/color/blur.h"
#include "server/image/color/color.h"
#include "server/image/color/pixel_ops.h"
#include "server/image/geometry/erase.h"
#include "server/stages/running/common_options.h"
#include "server/stages/running/families.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {
namespace {

// A stage that changes an image's pixels in place, with its probability. Draws: NextUnit(), and
// acts if that is below the probability; then what Change draws.
class ChanceStage : public ValueStage {
 public:
  ChanceStage(StagePlace place, double probability)
      : ValueStage(std::move(place)), probability_(probability) {}
  absl::Status Run(Value& value, const StageContext& context) const final {
    SampleRandom random = place().Random(context.key);
    if (random.NextUnit() < probability_) Change(value.pixels, random, context.scratch);
    return absl::OkStatus();
  }

  Effect effect() const final { return Effect::kInPlace; }

 protected:
  virtual void Change(const MutableImageView& image, SampleRandom& random,
                      StageScratch& scratch) const = 0;

 private:
  double probability_;
};

// `color_jitter`. Draws further: the order of brightness, contrast, saturation and hue, as a
// shuffle of these four from the last place to the second (NextBelow(4), (3), (2)); then
// NextUniform for each of the four, in the order of this list, also for those that do not change.
class ColorJitterStage : public ChanceStage {
 public:
  ColorJitterStage(StagePlace place, const v1::ColorJitter& spec)
      : ChanceStage(std::move(place), spec.probability()),
        ranges_{DrawRange::Of(spec.brightness(), {1, 1}), DrawRange::Of(spec.contrast(), {1, 1}),
                DrawRange::Of(spec.saturation(), {1, 1}), DrawRange::Of(spec.hue(), {0, 0})} {}

 protected:
  void Change(const MutableImageView& image, SampleRandom& random, StageScratch&) const override {
    int order[4] = {0, 1, 2, 3};
    for (int i = 3; i > 0; --i) std::swap(order[i], order[random.NextBelow(i + 1)]);
    double amounts[4];
    for (int i = 0; i < 4; ++i) amounts[i] = ranges_[i].Draw(random);
    for (const int which : order) {
      const double amount = amounts[which];
      if (amount == (which == 3 ? 0 : 1)) continue;
      if (which == 0) AdjustBrightness(amount, image);
      if (which == 1) AdjustContrast(amount, image);
      if (which == 2) AdjustSaturation(amount, image);
      if (which == 3) AdjustHue(amount, image);
    }
  }

 private:
  std::array<DrawRange, 4> ranges_;
};

// `random_photometric_distort`. Draws for brightness, contrast, saturation and hue, in this order,
// NextUnit(), which changes it if below the probability, and NextUniform for the amount;
// NextUnit(), below 0.5 for contrast before saturation and hue, else after them; NextUnit() for
// permuting the channels, by the probability, and a shuffle of the three from the last place to the
// second (NextBelow(3), (2)). All of these are always drawn.
class PhotometricDistortStage : public ValueStage {
 public:
  PhotometricDistortStage(StagePlace place, const v1::RandomPhotometricDistort& spec)
      : ValueStage(std::move(place)),
        probability_(spec.probability()),
        ranges_{DrawRange::Of(spec.brightness()), DrawRange::Of(spec.contrast()),
                DrawRange::Of(spec.saturation()), DrawRange::Of(spec.hue())} {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    SampleRandom random = place().Random(context.key);
    bool changes[4];
    double amounts[4];
    for (int i = 0; i < 4; ++i) {
      changes[i] = random.NextUnit() < probability_;
      amounts[i] = ranges_[i].Draw(random);
    }
    const bool contrast_first = random.NextUnit() < 0.5;
    const bool permutes = random.NextUnit() < probability_;
    std::array<int, 3> from = {0, 1, 2};
    for (int i = 2; i > 0; --i) std::swap(from[i], from[random.NextBelow(i + 1)]);
    const MutableImageView& image = value.pixels;
    if (changes[0]) AdjustBrightness(amounts[0], image);
    if (changes[1] && contrast_first) AdjustContrast(amounts[1], image);
    if (changes[2]) AdjustSaturation(amounts[2], image);
    if (changes[3]) AdjustHue(amounts[3], image);
    if (changes[1] && !contrast_first) AdjustContrast(amounts[1], image);
    if (permutes) PermuteChannels(from, image);
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kInPlace; }

 private:
  double probability_;
  std::array<DrawRange, 4> ranges_;
};

// `gaussian_blur`. Draws further: NextUniform for sigma.
class GaussianBlurStage : public ChanceStage {
 public:
  GaussianBlurStage(StagePlace place, const v1::GaussianBlur& spec)
      : ChanceStage(std::move(place), spec.probability()),
        width_(static_cast<int>(spec.kernel())),
        sigma_(DrawRange::Of(spec.sigma())) {}

 protected:
  void Change(const MutableImageView& image, SampleRandom& random,
              StageScratch& scratch) const override {
    GaussianBlur(GaussianKernel(width_, sigma_.Draw(random)), image, scratch.bytes);
  }

 private:
  int width_;
  DrawRange sigma_;
};

// `random_erasing`. Draws further: see RandomEraseRect.
class RandomErasingStage : public ChanceStage {
 public:
  RandomErasingStage(const StageSite& site, const v1::RandomErasing& spec)
      : ChanceStage(site.place, spec.probability()),
        bounds_{spec.scale().at(0), spec.scale().at(1), spec.ratio().at(0), spec.ratio().at(1)},
        fill_(FillOf(spec.fill(), site.channels())) {}

 protected:
  void Change(const MutableImageView& image, SampleRandom& random, StageScratch&) const override {
    const std::optional<Rect> rect = RandomEraseRect(image.size(), bounds_, random);
    if (rect.has_value()) EraseRect(*rect, fill_.data(), image);
  }

 private:
  EraseBounds bounds_;
  std::vector<uint8_t> fill_;
};

// `grayscale`, `equalize` and `autocontrast`: nothing else is drawn.
template <void (*kChange)(const MutableImageView& image)>
class PixelStage : public ChanceStage {
 public:
  template <typename Chancy>
  PixelStage(StagePlace place, const Chancy& spec)
      : ChanceStage(std::move(place), spec.probability()) {}

 protected:
  void Change(const MutableImageView& image, SampleRandom&, StageScratch&) const override {
    kChange(image);
  }
};

// `posterize` and `solarize`, by one number: nothing else is drawn.
template <void (*kChange)(int number, const MutableImageView& image), auto kNumber>
class NumberStage : public ChanceStage {
 public:
  template <typename Chancy>
  NumberStage(StagePlace place, const Chancy& spec)
      : ChanceStage(std::move(place), spec.probability()),
        number_(static_cast<int>((spec.*kNumber)())) {}

 protected:
  void Change(const MutableImageView& image, SampleRandom&, StageScratch&) const override {
    kChange(number_, image);
  }

 private:
  int number_;
};

}  // namespace

std::vector<NumberedMaker> ColorStages() {
  using Stage = v1::Stage;
  return {
      {Stage::kColorJitter, Make<ColorJitterStage, &Stage::color_jitter>},
      {Stage::kRandomPhotometricDistort,
       Make<PhotometricDistortStage, &Stage::random_photometric_distort>},
      {Stage::kGaussianBlur, Make<GaussianBlurStage, &Stage::gaussian_blur>},
      {Stage::kRandomErasing, Make<RandomErasingStage, &Stage::random_erasing>},
      {Stage::kGrayscale, Make<PixelStage<ToGrayscale>, &Stage::grayscale>},
      {Stage::kEqualize, Make<PixelStage<Equalize>, &Stage::equalize>},
      {Stage::kAutocontrast, Make<PixelStage<Autocontrast>, &Stage::autocontrast>},
      {Stage::kPosterize, Make<NumberStage<Posterize, &v1::Posterize::bits>, &Stage::posterize>},
      {Stage::kSolarize, Make<NumberStage<Solarize, &v1::Solarize::threshold>, &Stage::solarize>},
  };
}

}  // namespace bulkhead
