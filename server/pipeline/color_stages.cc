#include "server/pipeline/color_stages.h"

#include <utility>

#include "server/image/color/blur.h"
#include "server/image/color/color.h"
#include "server/pipeline/stage_factory.h"

namespace bulkhead {
namespace {

// Of stages that act always where the spec is silent.
template <typename Chancy>
double ProbabilityOf(const Chancy& spec, double otherwise = 1) {
  return spec.has_probability() ? spec.probability() : otherwise;
}

template <typename Chancy, typename Op>
std::unique_ptr<SampleStage> MakePixelStage(const StageSite& site, const Chancy& spec, Op op) {
  return std::make_unique<PixelStage<Op>>(site.place, ProbabilityOf(spec), op);
}

}  // namespace

std::vector<uint8_t> FillOf(const google::protobuf::RepeatedField<uint32_t>& fill,
                            size_t channels) {
  std::vector<uint8_t> values(channels, 0);
  for (size_t c = 0; c < channels && !fill.empty(); ++c) {
    values[c] = static_cast<uint8_t>(fill[fill.size() == 1 ? 0 : static_cast<int>(c)]);
  }
  return values;
}

absl::Status ChanceStage::Run(Value& value, const StageContext& context) const {
  SampleRandom random = place().Random(context.key);
  if (random.NextUnit() < probability_) Change(value.pixels, random, context.scratch);
  return absl::OkStatus();
}

ColorJitterStage::ColorJitterStage(StagePlace place, const v1::ColorJitter& spec)
    : ChanceStage(std::move(place), ProbabilityOf(spec)),
      ranges_{DrawRange::Of(spec.brightness(), {1, 1}), DrawRange::Of(spec.contrast(), {1, 1}),
              DrawRange::Of(spec.saturation(), {1, 1}), DrawRange::Of(spec.hue(), {0, 0})} {}

void ColorJitterStage::Change(const MutableImageView& image, SampleRandom& random,
                              StageScratch&) const {
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

PhotometricDistortStage::PhotometricDistortStage(StagePlace place,
                                                 const v1::RandomPhotometricDistort& spec)
    : ValueStage(std::move(place)),
      probability_(ProbabilityOf(spec, 0.5)),
      ranges_{DrawRange::Of(spec.brightness(), {0.875, 1.125}),
              DrawRange::Of(spec.contrast(), {0.5, 1.5}),
              DrawRange::Of(spec.saturation(), {0.5, 1.5}),
              DrawRange::Of(spec.hue(), {-0.05, 0.05})} {}

absl::Status PhotometricDistortStage::Run(Value& value, const StageContext& context) const {
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

GaussianBlurStage::GaussianBlurStage(StagePlace place, const v1::GaussianBlur& spec)
    : ChanceStage(std::move(place), ProbabilityOf(spec)),
      width_(static_cast<int>(spec.kernel())),
      sigma_(DrawRange::Of(spec.sigma(), {0.1, 2})) {}

void GaussianBlurStage::Change(const MutableImageView& image, SampleRandom& random,
                               StageScratch& scratch) const {
  GaussianBlur(GaussianKernel(width_, sigma_.Draw(random)), image, scratch.bytes);
}

RandomErasingStage::RandomErasingStage(StagePlace place, const v1::RandomErasing& spec,
                                       size_t channels)
    : ChanceStage(std::move(place), ProbabilityOf(spec, 0.5)),
      fill_(FillOf(spec.fill(), channels)) {
  const DrawRange scale = DrawRange::Of(spec.scale(), {bounds_.scale_low, bounds_.scale_high});
  const DrawRange ratio = DrawRange::Of(spec.ratio(), {bounds_.ratio_low, bounds_.ratio_high});
  bounds_ = {scale.low, scale.high, ratio.low, ratio.high};
}

void RandomErasingStage::Change(const MutableImageView& image, SampleRandom& random,
                                StageScratch&) const {
  const std::optional<Rect> rect = RandomEraseRect(image.size(), bounds_, random);
  if (rect.has_value()) EraseRect(*rect, fill_.data(), image);
}

std::unique_ptr<SampleStage> MakeColorStage(const StageSite& site) {
  const v1::Stage& stage = site.stage;
  switch (stage.stage_case()) {
    case v1::Stage::kColorJitter:
      return std::make_unique<ColorJitterStage>(site.place, stage.color_jitter());
    case v1::Stage::kRandomPhotometricDistort:
      return std::make_unique<PhotometricDistortStage>(site.place,
                                                       stage.random_photometric_distort());
    case v1::Stage::kGaussianBlur:
      return std::make_unique<GaussianBlurStage>(site.place, stage.gaussian_blur());
    case v1::Stage::kRandomErasing:
      return std::make_unique<RandomErasingStage>(site.place, stage.random_erasing(),
                                                  ChannelsBefore(site));
    case v1::Stage::kGrayscale:
      return MakePixelStage(site, stage.grayscale(), &ToGrayscale);
    case v1::Stage::kEqualize:
      return MakePixelStage(site, stage.equalize(), &Equalize);
    case v1::Stage::kAutocontrast:
      return MakePixelStage(site, stage.autocontrast(), &Autocontrast);
    case v1::Stage::kPosterize: {
      const int bits = static_cast<int>(stage.posterize().bits());
      return MakePixelStage(site, stage.posterize(),
                            [bits](const MutableImageView& image) { Posterize(bits, image); });
    }
    case v1::Stage::kSolarize: {
      const v1::Solarize& spec = stage.solarize();
      const int threshold = spec.has_threshold() ? static_cast<int>(spec.threshold()) : 128;
      return MakePixelStage(
          site, spec, [threshold](const MutableImageView& image) { Solarize(threshold, image); });
    }
    default:
      return nullptr;
  }
}

}  // namespace bulkhead
