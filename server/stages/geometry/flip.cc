#include "server/stages/geometry/flip.h"

#include "server/image/geometry/flip.h"

namespace bulkhead {
namespace {

constexpr double kDefaultProbability = 0.5;

template <typename Flip>
double ProbabilityOf(const Flip& spec) {
  return spec.has_probability() ? spec.probability() : kDefaultProbability;
}

}  // namespace

RandomFlipStage::RandomFlipStage(StagePlace place, const v1::RandomHorizontalFlip& spec)
    : ValueStage(std::move(place)), probability_(ProbabilityOf(spec)) {}

bool RandomFlipStage::Flips(const SampleKey& key) const {
  SampleRandom random = place().Random(key);
  return random.NextUnit() < probability_;
}

absl::Status RandomFlipStage::Run(Value& value, const StageContext& context) const {
  if (!Flips(context.key)) return absl::OkStatus();
  FlipHorizontallyInPlace(value.pixels, context.scratch.row);
  context.Moved(Geometry::FlipColumns(value.pixels.size()));
  return absl::OkStatus();
}

RandomVerticalFlipStage::RandomVerticalFlipStage(StagePlace place,
                                                 const v1::RandomVerticalFlip& spec)
    : ValueStage(std::move(place)), probability_(ProbabilityOf(spec)) {}

absl::Status RandomVerticalFlipStage::Run(Value& value, const StageContext& context) const {
  SampleRandom random = place().Random(context.key);
  if (random.NextUnit() >= probability_) return absl::OkStatus();
  FlipVerticallyInPlace(value.pixels, context.scratch.row);
  context.Moved(Geometry::FlipRows(value.pixels.size()));
  return absl::OkStatus();
}

}  // namespace bulkhead
