#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/stages/declaration/families.h"
#include "server/stages/declaration/feature_kind.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

using Signature = absl::StatusOr<FeatureSignature>;

constexpr double kMaxDegrees = 360;
constexpr double kMaxShear = 89;
constexpr double kMinScale = 0.001;
constexpr double kMaxScale = 1000;

Option WarpInterpolation(v1::Interpolation otherwise) {
  return Interpolation(otherwise).NoneOf({v1::INTERPOLATION_AREA, v1::INTERPOLATION_CUBIC},
                                         "can be nearest or linear here");
}

// Degrees within ±`limit`: one number for both directions, or pairs [low, high].
void NormalizeAngles(Doubles& angles, double limit, int max_pairs, const std::string& path,
                     SpecProblems& problems) {
  if (angles.size() == 1 && angles[0] >= 0) {
    angles.Add(angles[0]);
    angles[0] = -angles[1];
  }
  bool fits = angles.size() == 2 || (max_pairs == 2 && angles.size() == 4);
  for (int i = 0; fits && i < angles.size(); i += 2) {
    fits = angles[i] >= -limit && angles[i] <= angles[i + 1] && angles[i + 1] <= limit;
  }
  if (fits) return;
  problems.Add(path, "must be one number of degrees from 0 to ", limit, ", or ",
               max_pairs == 2 ? "[low, high] or [x low, x high, y low, y high]" : "[low, high]",
               " within -", limit, " and ", limit);
}

void NormalizeAffine(v1::RandomAffine& stage, const std::string& path, SpecProblems& problems) {
  NormalizeAngles(*stage.mutable_degrees(), kMaxDegrees, 1, path + ".degrees", problems);
  if (stage.scale(0) > 0 && stage.scale(0) < kMinScale) {
    problems.Add(path + ".scale", "cannot begin below ", kMinScale);
  }
  if (!stage.shear().empty()) {
    NormalizeAngles(*stage.mutable_shear(), kMaxShear, 2, path + ".shear", problems);
  }
}

template <typename Augment>
Signature InferAugment(const Augment& stage, const FeatureSignature& input,
                       absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  if (input.shape.back() != 1 && input.shape.back() != 3) {
    return WrongInput(path, input, "an image with one or three channels",
                      "decode it with color: rgb or gray");
  }
  return InferFilled(stage, input, path);
}

bool AnyOpen(const Doubles& pairs) {
  for (int i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i] != pairs[i + 1]) return true;
  }
  return false;
}

bool AffineDraws(const v1::RandomAffine& stage) {
  const bool moves = std::any_of(stage.translate().begin(), stage.translate().end(),
                                 [](double share) { return share > 0; });
  return moves || AnyOpen(stage.degrees()) || AnyOpen(stage.scale()) || AnyOpen(stage.shear());
}

bool PerspectiveDraws(const v1::RandomPerspective& stage) {
  return ActsByChance(stage) || (stage.probability() > 0 && stage.distortion() > 0);
}

bool ElasticDraws(const v1::Elastic& stage) { return stage.probability() > 0 && stage.alpha() > 0; }

}  // namespace

StageKinds WarpKinds() {
  constexpr auto kMoves = StageTraits::Motion::kMoves;
  constexpr StageTraits kRandom = {.is_random = true, .motion = kMoves};
  constexpr StageTraits kRandomHeld = {.is_random = true, .holds_result = true, .motion = kMoves};
  const std::string shares = "must be two numbers, shares of [width, height], each between 0 and 1";
  const Option nearest = WarpInterpolation(v1::INTERPOLATION_NEAREST);
  return Family(
      Declare<v1::RandomAffine>(
          {.options = {Option("degrees").Default(0),
                       Option("translate").Count(2, 2, shares).Between(0, 1, shares),
                       Option("scale").Default({1, 1}).RangeAbove(0, kMaxScale), nearest, Fill(0)},
           .rules = NormalizeAffine,
           .infer = InferFilled<v1::RandomAffine>,
           .traits = kRandomHeld,
           .draws = AffineDraws}),
      Declare<v1::RandomPerspective>(
          {.options = {Option("distortion").Default(0.5).Between(0, 1), Probability(0.5),
                       WarpInterpolation(v1::INTERPOLATION_LINEAR), Fill(0)},
           .infer = InferFilled<v1::RandomPerspective>,
           .traits = kRandomHeld,
           .draws = PerspectiveDraws}),
      Declare<v1::Elastic>({.options = {Option("alpha").Default(50).Between(0, 10000),
                                        Option("sigma").Default(5).Between(1, 1000), Probability(1),
                                        WarpInterpolation(v1::INTERPOLATION_LINEAR), Fill(0)},
                            .infer = InferFilled<v1::Elastic>,
                            .traits = kRandomHeld,
                            .draws = ElasticDraws}),
      Declare<v1::RandAugment>(
          {.options =
               {Option("operations").Default(2).Between(1, 100, "is $0, over the limit of $2"),
                Option("magnitude").Default(9).Between(0, 30, "is $0; it goes from $1 to $2"),
                nearest, Fill(0)},
           .infer = InferAugment<v1::RandAugment>,
           .traits = kRandom}),
      Declare<v1::TrivialAugment>({.options = {nearest, Fill(0)},
                                   .infer = InferAugment<v1::TrivialAugment>,
                                   .traits = kRandom}));
}

}  // namespace bulkhead
