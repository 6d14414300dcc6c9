#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/spec/stages/feature_kind.h"
#include "server/spec/stages/kind_families.h"
#include "server/spec/stages/stage_checks.h"

namespace bulkhead {
namespace {

using Signature = absl::StatusOr<FeatureSignature>;

constexpr double kMaxDegrees = 360;
constexpr double kMaxShear = 89;
constexpr double kMinScale = 0.001;
constexpr double kMaxScale = 1000;
constexpr uint32_t kMaxOperations = 100;
constexpr uint32_t kMaxMagnitude = 30;

template <typename Warp>
void NormalizeWarp(Warp& stage, v1::Interpolation otherwise, const std::string& path,
                   SpecProblems& problems) {
  NormalizeInterpolation(stage, path, problems, otherwise);
  if (stage.interpolation() == v1::INTERPOLATION_AREA ||
      stage.interpolation() == v1::INTERPOLATION_CUBIC) {
    problems.Add(path + ".interpolation", "can be nearest or linear here");
  }
  NormalizeFill(*stage.mutable_fill(), 0, path, problems);
}

// Degrees within ±`limit`: one number for both directions, or pairs [low, high].
void NormalizeAngles(Numbers& angles, double limit, int max_pairs, const std::string& path,
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
  problems.Add(path, absl::StrCat("must be one number of degrees from 0 to ", limit, ", or ",
                                  max_pairs == 2 ? "[low, high] or [x low, x high, y low, y high]"
                                                 : "[low, high]",
                                  " within -", limit, " and ", limit));
}

void NormalizeAffine(v1::RandomAffine& stage, const std::string& path, SpecProblems& problems) {
  if (stage.degrees().empty()) stage.add_degrees(0);
  NormalizeAngles(*stage.mutable_degrees(), kMaxDegrees, 1, path + ".degrees", problems);
  const auto is_share = [](double share) { return share >= 0 && share <= 1; };
  if (!stage.translate().empty() &&
      !(stage.translate_size() == 2 &&
        std::all_of(stage.translate().begin(), stage.translate().end(), is_share))) {
    problems.Add(path + ".translate",
                 "must be two numbers, shares of [width, height], each between 0 and 1");
  }
  NormalizeBounds(*stage.mutable_scale(), 1, 1, kMaxScale, path + ".scale", problems);
  if (stage.scale(0) > 0 && stage.scale(0) < kMinScale) {
    problems.Add(path + ".scale", absl::StrCat("cannot begin below ", kMinScale));
  }
  if (!stage.shear().empty()) {
    NormalizeAngles(*stage.mutable_shear(), kMaxShear, 2, path + ".shear", problems);
  }
  NormalizeWarp(stage, v1::INTERPOLATION_NEAREST, path, problems);
}

void NormalizePerspective(v1::RandomPerspective& stage, const std::string& path,
                          SpecProblems& problems) {
  if (!stage.has_distortion()) stage.set_distortion(0.5);
  if (!(stage.distortion() >= 0 && stage.distortion() <= 1)) {
    problems.Add(path + ".distortion", "must lie between 0 and 1");
  }
  NormalizeProbability(stage, 0.5, path, problems);
  NormalizeWarp(stage, v1::INTERPOLATION_LINEAR, path, problems);
}

void NormalizeRandAugment(v1::RandAugment& stage, const std::string& path, SpecProblems& problems) {
  if (stage.operations() == 0) stage.set_operations(2);
  if (stage.operations() > kMaxOperations) {
    problems.Add(path + ".operations",
                 absl::StrCat("is ", stage.operations(), ", over the limit of ", kMaxOperations));
  }
  if (!stage.has_magnitude()) stage.set_magnitude(9);
  if (stage.magnitude() > kMaxMagnitude) {
    problems.Add(path + ".magnitude",
                 absl::StrCat("is ", stage.magnitude(), "; it goes from 0 to ", kMaxMagnitude));
  }
  NormalizeWarp(stage, v1::INTERPOLATION_NEAREST, path, problems);
}

void NormalizeTrivialAugment(v1::TrivialAugment& stage, const std::string& path,
                             SpecProblems& problems) {
  NormalizeWarp(stage, v1::INTERPOLATION_NEAREST, path, problems);
}

template <typename Warp>
Signature InferWarp(const Warp& stage, const FeatureSignature& input, absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  BULKHEAD_RETURN_IF_ERROR(CheckFill(stage.fill(), input, path));
  return input;
}

template <typename Augment>
Signature InferAugment(const Augment& stage, const FeatureSignature& input,
                       absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  if (input.shape.back() != 1 && input.shape.back() != 3) {
    return WrongInput(path, input, "an image with one or three channels",
                      "decode it with color: rgb or gray");
  }
  return InferWarp(stage, input, path);
}

bool AnyOpen(const Numbers& pairs) {
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

}  // namespace

std::vector<NumberedKind> WarpKinds() {
  constexpr auto kMoves = StageTraits::Motion::kMoves;
  constexpr StageTraits kRandom = {.is_random = true, .motion = kMoves};
  constexpr StageTraits kRandomHeld = {.is_random = true, .holds_result = true, .motion = kMoves};
  std::vector<NumberedKind> kinds;
  kinds.push_back(ImageKind<v1::RandomAffine>(NormalizeAffine, InferWarp<v1::RandomAffine>,
                                              kRandomHeld, AffineDraws));
  kinds.push_back(ImageKind<v1::RandomPerspective>(
      NormalizePerspective, InferWarp<v1::RandomPerspective>, kRandomHeld, PerspectiveDraws));
  kinds.push_back(
      ImageKind<v1::RandAugment>(NormalizeRandAugment, InferAugment<v1::RandAugment>, kRandom));
  kinds.push_back(ImageKind<v1::TrivialAugment>(NormalizeTrivialAugment,
                                                InferAugment<v1::TrivialAugment>, kRandom));
  return kinds;
}

}  // namespace bulkhead
