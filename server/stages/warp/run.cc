#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/color/augment.h"
#include "server/image/color/blur.h"
#include "server/image/deterministic_math.h"
#include "server/image/geometry/warp.h"
#include "server/stages/running/common_options.h"
#include "server/stages/running/families.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {
namespace {

// The constants of a warping stage.
struct WarpSettings {
  WarpMethod method;
  std::vector<uint8_t> fill;  // one value a channel
};

template <typename Warp>
WarpSettings SettingsOf(const Warp& spec, size_t channels) {
  const bool is_linear = spec.interpolation() == v1::INTERPOLATION_LINEAR;
  return {is_linear ? WarpMethod::kLinear : WarpMethod::kNearest, FillOf(spec.fill(), channels)};
}

// `bend` gives the source of each pixel, and `geometry` the movement of points.
template <typename Bend>
void WarpValue(Value& value, const Bend& bend, const Geometry& geometry,
               const WarpSettings& settings, const StageContext& context) {
  const ImageView in = value.pixels;
  const MutableImageView out =
      ContiguousImage(reinterpret_cast<uint8_t*>(context.Result(in.row_bytes() * in.height)),
                      in.size(), in.channels);
  WarpImage(in, bend, settings.method, settings.fill.data(), out);
  context.Moved(geometry);
  value.SetPixels(out);
}

void WarpValue(Value& value, const WarpMap& map, const WarpSettings& settings,
               const StageContext& context) {
  WarpValue(value, map, Geometry::Warp(value.pixels.size(), map), settings, context);
}

double Rounded(double x) {
  return static_cast<double>(x < 0 ? -RoundHalfEven(-x) : RoundHalfEven(x));
}

// `random_affine`. Draws NextUniform for the angle, the shifts along x and y, the scale and the
// shears along x and y, in this order, also for those that the spec does not change. Shifts are
// rounded to whole pixels, halves to even.
class RandomAffineStage : public ValueStage {
 public:
  RandomAffineStage(const StageSite& site, const v1::RandomAffine& spec)
      : ValueStage(site.place),
        settings_(SettingsOf(spec, site.channels())),
        degrees_(DrawRange::Of(spec.degrees())),
        scale_(DrawRange::Of(spec.scale())) {
    if (spec.translate_size() == 2) {
      shift_x_ = spec.translate(0);
      shift_y_ = spec.translate(1);
    }
    if (spec.shear_size() >= 2) shear_x_ = {spec.shear(0), spec.shear(1)};
    if (spec.shear_size() == 4) shear_y_ = {spec.shear(2), spec.shear(3)};
  }

  absl::Status Run(Value& value, const StageContext& context) const override {
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

  Effect effect() const override { return Effect::kWrites; }

 private:
  WarpSettings settings_;
  DrawRange degrees_;
  double shift_x_ = 0;  // shares of the sides
  double shift_y_ = 0;
  DrawRange scale_;
  DrawRange shear_x_{0, 0};
  DrawRange shear_y_{0, 0};
};

// `random_perspective`. Draws NextUnit() and acts if that is below the probability; then see
// RandomCorners. An image one pixel high or wide, for which no map exists, is not changed.
class RandomPerspectiveStage : public ValueStage {
 public:
  RandomPerspectiveStage(const StageSite& site, const v1::RandomPerspective& spec)
      : ValueStage(site.place),
        settings_(SettingsOf(spec, site.channels())),
        distortion_(spec.distortion()),
        probability_(spec.probability()) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    SampleRandom random = place().Random(context.key);
    if (random.NextUnit() >= probability_) return absl::OkStatus();
    const ImageSize size = value.pixels.size();
    const auto map = PerspectiveMap(size, RandomCorners(size, distortion_, random));
    if (map.has_value()) WarpValue(value, *map, settings_, context);
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }

 private:
  WarpSettings settings_;
  double distortion_;
  double probability_;
};

// `elastic`. Draws NextUnit(), and acts when that is below the probability; then Next32() for each
// node of the shift along x, row by row, and of that along y: 2^-31 of it less 1 is in [-1, 1).
// Nodes are max(2, ⌊sigma / 2⌋) pixels apart. They are those of the Displacement and, on all sides,
// as many more as the kernel reaches: ⌈3 sigma / spacing⌉. Their values are weighted by a Gaussian
// along rows, then across, in float32 and from the outside to the middle, and multiplied by alpha /
// spacing, so that the shift is as large as with one number per pixel.
class ElasticStage : public ValueStage {
 public:
  ElasticStage(const StageSite& site, const v1::Elastic& spec)
      : ValueStage(site.place),
        settings_(SettingsOf(spec, site.channels())),
        probability_(spec.probability()),
        spacing_(std::max(2, static_cast<int>(spec.sigma() / 2))),
        strength_(static_cast<float>(spec.alpha() / spacing_)),
        kernel_(1 + 2 * static_cast<int>(std::ceil(3 * spec.sigma() / spacing_)),
                spec.sigma() / spacing_) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    SampleRandom random = place().Random(context.key);
    if (random.NextUnit() >= probability_) return absl::OkStatus();
    const ImageSize size = value.pixels.size();
    const Displacement shift = Draw(random, size, context.scratch);
    WarpValue(value, shift, Geometry::Displace(size, shift), settings_, context);
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }

 private:
  Displacement Draw(SampleRandom& random, ImageSize size, StageScratch& scratch) const {
    Displacement nodes;
    nodes.spacing = spacing_;
    nodes.rows = Displacement::NodesAlong(size.height, spacing_);
    nodes.columns = Displacement::NodesAlong(size.width, spacing_);
    const size_t count = static_cast<size_t>(nodes.rows) * nodes.columns;
    const size_t drawn_rows = nodes.rows + 2 * kernel_.radius();
    const size_t drawn_columns = nodes.columns + 2 * kernel_.radius();
    auto* planes = reinterpret_cast<float*>(scratch.row.Resize(2 * count * sizeof(float)));
    auto* noise = reinterpret_cast<float*>(
        scratch.resized.Resize(drawn_rows * (drawn_columns + nodes.columns) * sizeof(float)));
    DrawPlane(random, nodes, noise, planes);
    DrawPlane(random, nodes, noise, planes + count);
    nodes.x = planes;
    nodes.y = planes + count;
    return nodes;
  }

  void DrawPlane(SampleRandom& random, const Displacement& nodes, float* noise,
                 float* plane) const {
    const int radius = kernel_.radius();
    const size_t drawn_columns = nodes.columns + 2 * radius;
    const size_t drawn = (nodes.rows + 2 * radius) * drawn_columns;
    for (size_t i = 0; i < drawn; ++i) {
      noise[i] = static_cast<float>(random.Next32() * 0x1p-31 - 1.0);
    }
    // `count` sums of the values `step` apart around `middle`.
    const auto blur = [&](const float* middle, size_t step, size_t count, float* out) {
      std::fill(out, out + count, 0.0f);
      for (int d = radius; d > 0; --d) {
        const float weight = kernel_.weight(d);
        const float* before = middle - d * step;
        const float* behind = middle + d * step;
        for (size_t i = 0; i < count; ++i) out[i] += weight * (before[i] + behind[i]);
      }
      for (size_t i = 0; i < count; ++i) out[i] += kernel_.weight(0) * middle[i];
    };
    float* const along = noise + drawn;
    for (int row = 0; row < nodes.rows + 2 * radius; ++row) {
      blur(noise + row * drawn_columns + radius, 1, nodes.columns, along + row * nodes.columns);
    }
    const size_t count = static_cast<size_t>(nodes.rows) * nodes.columns;
    blur(along + radius * nodes.columns, nodes.columns, count, plane);
    for (size_t i = 0; i < count; ++i) plane[i] *= strength_;
  }

  WarpSettings settings_;
  double probability_;
  int spacing_;
  float strength_;
  GaussianKernel kernel_;
};

// `rand_augment` and `trivial_augment`. Draws for each operation NextBelow(14), its number; for
// `trivial_augment` NextBelow(31), the magnitude; and NextBelow(2), 1 for the negative direction.
// All are drawn, even if the operation does not use them.
class AugmentStage : public ValueStage {
 public:
  AugmentStage(const StageSite& site, const v1::RandAugment& spec)
      : ValueStage(site.place),
        settings_(SettingsOf(spec, site.channels())),
        space_(AugmentSpace::kRandAugment),
        operations_(static_cast<int>(spec.operations())),
        magnitude_(static_cast<int>(spec.magnitude())) {}
  AugmentStage(const StageSite& site, const v1::TrivialAugment& spec)
      : ValueStage(site.place),
        settings_(SettingsOf(spec, site.channels())),
        space_(AugmentSpace::kTrivialAugmentWide),
        operations_(1),
        magnitude_(0) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
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

  Effect effect() const override { return Effect::kInPlace; }

 private:
  WarpSettings settings_;
  AugmentSpace space_;
  int operations_;
  int magnitude_;  // of kRandAugment
};

}  // namespace

std::vector<NumberedMaker> WarpStages() {
  using Stage = v1::Stage;
  return {
      {Stage::kRandomAffine, Make<RandomAffineStage, &Stage::random_affine>},
      {Stage::kRandomPerspective, Make<RandomPerspectiveStage, &Stage::random_perspective>},
      {Stage::kElastic, Make<ElasticStage, &Stage::elastic>},
      {Stage::kRandAugment, Make<AugmentStage, &Stage::rand_augment>},
      {Stage::kTrivialAugment, Make<AugmentStage, &Stage::trivial_augment>},
  };
}

}  // namespace bulkhead
