#include "server/stages/mosaic/declare.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/limits.h"
#include "server/stages/declaration/families.h"
#include "server/stages/declaration/feature_kind.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;

// Checks that rows of `feature` can be appended. `boxes`: those of the image; null if it does not
// have exactly one such feature.
absl::Status CheckRows(const std::string& path, const FeatureSignature& feature,
                       const FeatureSignature* boxes) {
  if (feature.annotation.has_value()) {
    return SpecError(path, "`", feature.name, "` was declared to belong to `",
                     feature.annotation->image,
                     "`; what belongs to the mosaic's image goes along by itself, and nothing else "
                     "can: leave it out here");
  }
  if (feature.kind != Kind::kTensor || feature.is_stack || feature.shape.empty()) {
    return SpecError(path, "`", feature.name, "` is ", DescribeFeature(feature),
                     ", which has no rows (from ", feature.path,
                     "); leave it out here, and it stays that of the sample itself");
  }
  if (boxes == nullptr || feature.shape[0] == boxes->shape[0]) return absl::OkStatus();
  return SpecError(path, "`", feature.name, "` has at most ", feature.shape[0], " rows, but `",
                   boxes->name, "` ", boxes->shape[0],
                   "; it must have a row for each box: give both the same max_count");
}

// `mosaic`: an image of four samples, and the rows of all four.
class MosaicKind : public StageKind {
 public:
  MosaicKind()
      : StageKind(v1::Mosaic::descriptor(),
                  {Option("input").DefaultName("image"), Size(),
                   Option("center")
                       .Default({0.25, 0.75})
                       .Range(0, 1, ": shares of the result's height and width"),
                   Fill(114), Probability(1), With()},
                  {.is_random = true,
                   .holds_result = true,
                   .motion = StageTraits::Motion::kMoves,
                   .knows_annotations = true,
                   .partners = kMosaicTiles - 1}) {}

  bool IsRandom(const v1::Stage& stage) const override { return stage.mosaic().probability() > 0; }

  std::vector<std::string> Reads(const v1::Stage& stage) const override {
    std::vector<std::string> names = {NameOr(stage.mosaic().input(), "image")};
    names.insert(names.end(), stage.mosaic().with().begin(), stage.mosaic().with().end());
    return names;
  }

  std::vector<std::string> WorksOn(const v1::Stage& stage,
                                   const std::vector<FeatureSignature>& before) const override {
    return MosaicFeatures(stage.mosaic(), before);
  }

  std::string ReadOption(const v1::Stage&, size_t i) const override {
    return i == 0 ? "input" : absl::StrCat("with[", i - 1, "]");
  }

  void CheckRules(v1::Stage& stage, const std::string& path,
                  SpecProblems& problems) const override {
    CheckWith(stage.mosaic(), path, problems);
  }

  absl::Status Infer(const v1::Stage& stage, absl::string_view path,
                     std::vector<FeatureSignature>& features) const override {
    const v1::Mosaic& options = stage.mosaic();
    const std::vector<FeatureSignature> before = features;
    FeatureSignature& image = FeatureNamed(features, Reads(stage)[0]);
    BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, image));
    BULKHEAD_RETURN_IF_ERROR(CheckFill(options.fill(), image, path));
    image = WithSize(options.size(), image);
    // A mask of which four are joined no longer follows its image.
    if (image.annotation.has_value()) image.annotation->lost_at = std::string(path);
    image.path = std::string(path);
    const FeatureSignature* const boxes = OnlyBoxes(before, image.name);
    for (int i = 0; i < options.with_size(); ++i) {
      const FeatureSignature& feature = FeatureNamed(features, options.with(i));
      BULKHEAD_RETURN_IF_ERROR(CheckRows(absl::StrCat(path, ".with[", i, "]"), feature, boxes));
    }
    for (const std::string& name : MosaicFeatures(options, before)) {
      FeatureSignature& feature = FeatureNamed(features, name);
      if (feature.kind == Kind::kImage) continue;
      // The rows of one image, if it stays alone.
      feature.variable = true;
      feature.shape[0] *= kMosaicTiles;
      feature.path = std::string(path);
    }
    return absl::OkStatus();
  }

 private:
  // The boxes of `image`; null if it has none or several such features.
  static const FeatureSignature* OnlyBoxes(const std::vector<FeatureSignature>& features,
                                           const std::string& image) {
    const FeatureSignature* found = nullptr;
    for (const FeatureSignature& feature : features) {
      if (!feature.annotation.has_value() || feature.annotation->image != image ||
          feature.annotation->kind != Annotation::Kind::kBoxes) {
        continue;
      }
      if (found != nullptr) return nullptr;
      found = &feature;
    }
    return found;
  }
};

}  // namespace

std::vector<std::string> MosaicFeatures(const v1::Mosaic& mosaic,
                                        const std::vector<FeatureSignature>& before) {
  std::vector<std::string> names = {NameOr(mosaic.input(), "image")};
  for (const FeatureSignature& feature : before) {
    if (feature.annotation.has_value() && feature.annotation->image == names[0]) {
      names.push_back(feature.name);
    }
  }
  names.insert(names.end(), mosaic.with().begin(), mosaic.with().end());
  return names;
}

StageKinds MosaicKinds() { return Family(std::make_unique<MosaicKind>()); }

}  // namespace bulkhead
