#include "server/pipeline/warp_stages.h"

#include <utility>

#include "server/image/deterministic_math.h"
#include "server/pipeline/stage_factory.h"

namespace bulkhead {
namespace {

template <typename Warp>
WarpSettings SettingsOf(const Warp& spec, size_t channels, v1::Interpolation otherwise) {
  const v1::Interpolation chosen =
      spec.interpolation() == v1::INTERPOLATION_UNSPECIFIED ? otherwise : spec.interpolation();
  return {chosen == v1::INTERPOLATION_LINEAR ? WarpMethod::kLinear : WarpMethod::kNearest,
          FillOf(spec.fill(), channels)};
}

void WarpValue(Value& value, const WarpMap& map, const WarpSettings& settings,
               const StageContext& context) {
  const ImageView in = value.pixels;
  const MutableImageView out =
      ContiguousImage(reinterpret_cast<uint8_t*>(context.Result(in.row_bytes() * in.height)),
                      in.size(), in.channels);
  WarpImage(in, map, settings.method, settings.fill.data(), out);
  context.Moved(Geometry::Warp(in.size(), map));
  value.SetPixels(out);
}

double Rounded(double x) {
  return static_cast<double>(x < 0 ? -RoundHalfEven(-x) : RoundHalfEven(x));
}

}  // namespace

RandomAffineStage::RandomAffineStage(StagePlace place, const v1::RandomAffine& spec,
                                     size_t channels)
    : ValueStage(std::move(place)),
      settings_(SettingsOf(spec, channels, v1::INTERPOLATION_NEAREST)),
      degrees_(DrawRange::Of(spec.degrees(), {0, 0})),
      scale_(DrawRange::Of(spec.scale(), {1, 1})) {
  if (spec.translate_size() == 2) {
    shift_x_ = spec.translate(0);
    shift_y_ = spec.translate(1);
  }
  if (spec.shear_size() >= 2) shear_x_ = {spec.shear(0), spec.shear(1)};
  if (spec.shear_size() == 4) shear_y_ = {spec.shear(2), spec.shear(3)};
}

absl::Status RandomAffineStage::Run(Value& value, const StageContext& context) const {
  SampleRandom random = place().Random(context.key);
  const double most_x = shift_x_ * value.pixels.width;
  const double most_y = shift_y_ * value.pixels.height;
  AffineParameters drawn;
  drawn.angle = degrees_.Draw(random);
  drawn.shift_x = Rounded(random.NextUniform(-most_x, most_x));
  drawn.shift_y = Rounded(random.NextUniform(-most_y, most_y));
  drawn.scale = scale_.Draw(random);
  drawn.shear_x = shear_x_.Draw(random);
  drawn.shear_y = shear_y_.Draw(random);
  WarpValue(value, AffineMap(value.pixels.size(), drawn), settings_, context);
  return absl::OkStatus();
}

RandomPerspectiveStage::RandomPerspectiveStage(StagePlace place, const v1::RandomPerspective& spec,
                                               size_t channels)
    : ValueStage(std::move(place)),
      settings_(SettingsOf(spec, channels, v1::INTERPOLATION_LINEAR)),
      distortion_(spec.has_distortion() ? spec.distortion() : 0.5),
      probability_(spec.has_probability() ? spec.probability() : 0.5) {}

absl::Status RandomPerspectiveStage::Run(Value& value, const StageContext& context) const {
  SampleRandom random = place().Random(context.key);
  if (random.NextUnit() >= probability_) return absl::OkStatus();
  const ImageSize size = value.pixels.size();
  const auto map = PerspectiveMap(size, RandomCorners(size, distortion_, random));
  if (map.has_value()) WarpValue(value, *map, settings_, context);
  return absl::OkStatus();
}

AugmentStage::AugmentStage(StagePlace place, const v1::RandAugment& spec, size_t channels)
    : ValueStage(std::move(place)),
      settings_(SettingsOf(spec, channels, v1::INTERPOLATION_NEAREST)),
      space_(AugmentSpace::kRandAugment),
      operations_(spec.operations() == 0 ? 2 : static_cast<int>(spec.operations())),
      magnitude_(spec.has_magnitude() ? static_cast<int>(spec.magnitude()) : 9) {}

AugmentStage::AugmentStage(StagePlace place, const v1::TrivialAugment& spec, size_t channels)
    : ValueStage(std::move(place)),
      settings_(SettingsOf(spec, channels, v1::INTERPOLATION_NEAREST)),
      space_(AugmentSpace::kTrivialAugmentWide),
      operations_(1),
      magnitude_(0) {}

absl::Status AugmentStage::Run(Value& value, const StageContext& context) const {
  SampleRandom random = place().Random(context.key);
  for (int i = 0; i < operations_; ++i) {
    const auto op = static_cast<AugmentOp>(random.NextBelow(kAugmentOps));
    const int bin = space_ == AugmentSpace::kRandAugment
                        ? magnitude_
                        : static_cast<int>(random.NextBelow(kAugmentBins));
    const bool negative = random.NextBelow(2) == 1;
    const ImageSize size = value.pixels.size();
    const AugmentStep step = MakeAugmentStep(space_, op, bin, negative, size);
    ApplyAugment(step, settings_.method, settings_.fill.data(), value.pixels,
                 {context.scratch.image, context.scratch.row});
    if (const auto map = AugmentMap(step, size); map.has_value()) {
      context.Moved(Geometry::Warp(size, *map));
    }
  }
  return absl::OkStatus();
}

std::unique_ptr<SampleStage> MakeWarpStage(const StageSite& site) {
  const v1::Stage& stage = site.stage;
  switch (stage.stage_case()) {
    case v1::Stage::kRandomAffine:
      return std::make_unique<RandomAffineStage>(site.place, stage.random_affine(),
                                                 ChannelsBefore(site));
    case v1::Stage::kRandomPerspective:
      return std::make_unique<RandomPerspectiveStage>(site.place, stage.random_perspective(),
                                                      ChannelsBefore(site));
    case v1::Stage::kRandAugment:
      return std::make_unique<AugmentStage>(site.place, stage.rand_augment(), ChannelsBefore(site));
    case v1::Stage::kTrivialAugment:
      return std::make_unique<AugmentStage>(site.place, stage.trivial_augment(),
                                            ChannelsBefore(site));
    default:
      return nullptr;
  }
}

}  // namespace bulkhead
