#include "server/stages/declaration/carry_annotations.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "server/stages/declaration/spec_error.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

using Motion = StageTraits::Motion;

void Lose(FeatureSignature& feature, absl::string_view path) {
  if (feature.annotation->lost_at.empty()) feature.annotation->lost_at = std::string(path);
}

// A stage without knowledge of annotations wrote `feature`, so its annotation is lost.
void CarryWritten(const FeatureSignature* before, absl::string_view path,
                  FeatureSignature& feature) {
  feature.annotation.reset();
  if (before == nullptr || !before->annotation.has_value()) return;
  feature.annotation = before->annotation;
  Lose(feature, path);
}

}  // namespace

std::string DescribeLoss(const FeatureSignature& feature) {
  const Annotation& lost = *feature.annotation;
  const absl::string_view stage = lost.kind == Annotation::Kind::kBoxes       ? "boxes"
                                  : lost.kind == Annotation::Kind::kKeypoints ? "keypoints"
                                                                              : "mask";
  return absl::StrCat("`", feature.name, "` and its image `", lost.image, "` were separated by ",
                      lost.lost_at,
                      ", which changes one without the other: move that stage after this one, or "
                      "declare it again after that stage (",
                      stage, ": {input: ", feature.name, ", …})");
}

absl::Status CarryAnnotations(const StageKind& kind, const v1::Stage& stage, absl::string_view path,
                              const std::vector<FeatureSignature>& before,
                              std::vector<FeatureSignature>& after) {
  const StageTraits& traits = kind.traits();
  if (!traits.knows_annotations) {
    for (FeatureSignature& feature : after) {
      if (feature.path == path) CarryWritten(FindFeature(before, feature.name), path, feature);
    }
  }
  const std::string moved = traits.motion == Motion::kMoves ? kind.Reads(stage)[0] : "";
  for (FeatureSignature& feature : after) {
    if (!feature.annotation.has_value()) continue;
    Annotation& annotation = *feature.annotation;
    // A stage that makes one image of several keeps the annotations of all.
    if (FindFeature(after, annotation.image) == nullptr) annotation.image = kind.Makes(stage)[0];
    const FeatureSignature& image = *FindFeature(after, annotation.image);
    if (traits.motion == Motion::kReplaces && image.path == path) Lose(feature, path);
    if (annotation.image != moved) continue;
    if (!annotation.lost_at.empty()) {
      return SpecError(path, "moves the pixels of `", moved, "`, but ", DescribeLoss(feature));
    }
    if (annotation.kind == Annotation::Kind::kMask) {
      feature.shape[0] = image.shape[0];
      feature.shape[1] = image.shape[1];
      feature.path = std::string(path);
    }
  }
  return absl::OkStatus();
}

}  // namespace bulkhead
