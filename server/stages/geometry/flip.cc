#include "server/stages/geometry/flip.h"

#include "server/image/geometry/flip.h"

namespace bulkhead {

RandomFlipStage::RandomFlipStage(StagePlace place, const v1::RandomHorizontalFlip& spec)
    : ValueStage(std::move(place)), probability_(spec.probability()) {}

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
    : ValueStage(std::move(place)), probability_(spec.probability()) {}

absl::Status RandomVerticalFlipStage::Run(Value& value, const StageContext& context) const {
  SampleRandom random = place().Random(context.key);
  if (random.NextUnit() >= probability_) return absl::OkStatus();
  FlipVerticallyInPlace(value.pixels, context.scratch.row);
  context.Moved(Geometry::FlipRows(value.pixels.size()));
  return absl::OkStatus();
}

}  // namespace bulkhead
