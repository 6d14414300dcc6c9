#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/stages/declaration/families.h"
#include "server/stages/declaration/feature_kind.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;

// Checks that `input` has float32 numbers and `last` of them in the last dimension.
absl::Status CheckCoordinates(absl::string_view path, const FeatureSignature& input,
                              absl::string_view wanted, int64_t last, size_t max_dimensions) {
  if (input.kind == Kind::kTensor && input.dtype == v1::DTYPE_FLOAT32 && input.shape.size() >= 2 &&
      input.shape.size() <= max_dimensions && input.shape.back() == last) {
    return absl::OkStatus();
  }
  const bool cast = input.kind == Kind::kTensor && input.dtype != v1::DTYPE_FLOAT32 &&
                    !input.shape.empty() && input.shape.back() == last;
  return WrongInput(path, input, wanted,
                    cast ? "put cast: {dtype: float32} before it" : "name another `input:`");
}

// `boxes`, `keypoints` and `mask`: declare that a feature belongs to an image.
template <typename Message>
class DeclarationKind : public StageKind {
 public:
  // Checks the feature and fills in its annotation from the stage.
  using DeclareFn = absl::Status (*)(const Message& stage, absl::string_view path,
                                     const FeatureSignature& image, FeatureSignature& feature);

  DeclarationKind(const std::string& default_input, Option own, DeclareFn declare)
      : StageKind(Message::descriptor(),
                  {Option("input").DefaultName(default_input), Option("image").DefaultName("image"),
                   std::move(own)},
                  {.knows_annotations = true, .declares = true}),
        declare_(declare) {}

  std::vector<std::string> Reads(const v1::Stage& stage) const override {
    const std::string& input = Of(stage).input();
    return {NameOr(input, options().Find("input")->default_name),
            NameOr(Of(stage).image(), "image")};
  }

  std::string ReadOption(const v1::Stage&, size_t i) const override {
    return i == 0 ? "input" : "image";
  }

  void CheckRules(v1::Stage& stage, const std::string& path,
                  SpecProblems& problems) const override {
    if (Of(stage).input() != Of(stage).image()) return;
    problems.Add(path + ".image", "is `", Of(stage).image(), "` itself");
  }

  absl::Status Infer(const v1::Stage& stage, absl::string_view path,
                     std::vector<FeatureSignature>& features) const override {
    const std::vector<std::string> names = Reads(stage);
    const FeatureSignature& image = FeatureNamed(features, names[1]);
    const std::string place = absl::StrCat(path, ".image");
    if (image.kind != Kind::kImage) {
      return SpecError(
          place, "must be a decoded image, but `", image.name, "` is ", DescribeFeature(image),
          " here (from ", image.path, ")",
          image.kind == Kind::kEncoded ? "; put decode_image before this" : "; name an image");
    }
    if (image.annotation.has_value() && image.annotation->kind == Annotation::Kind::kMask) {
      return SpecError(place, "`", image.name, "` is a mask of `", image.annotation->image,
                       "`: name that image");
    }
    FeatureSignature& feature = FeatureNamed(features, names[0]);
    for (const FeatureSignature& other : features) {
      if (!other.annotation.has_value() || other.annotation->image != feature.name) continue;
      return SpecError(absl::StrCat(path, ".input"), "`", feature.name, "` is an image that `",
                       other.name, "` was declared for (", other.path, "); declare that for `",
                       image.name, "` instead");
    }
    feature.annotation.emplace();
    feature.annotation->image = image.name;
    BULKHEAD_RETURN_IF_ERROR(declare_(Of(stage), path, image, feature));
    feature.path = std::string(path);
    return absl::OkStatus();
  }

 private:
  static const Message& Of(const v1::Stage& stage) {
    return static_cast<const Message&>(OptionsOf(stage));
  }

  DeclareFn declare_;
};

absl::Status DeclareBoxes(const v1::Boxes& stage, absl::string_view path, const FeatureSignature&,
                          FeatureSignature& feature) {
  BULKHEAD_RETURN_IF_ERROR(CheckCoordinates(path, feature, "rows of four float32 numbers", 4, 2));
  feature.annotation->kind = Annotation::Kind::kBoxes;
  feature.annotation->format = stage.format();
  feature.annotation->relative = stage.relative();
  return absl::OkStatus();
}

absl::Status DeclareKeypoints(const v1::Keypoints& stage, absl::string_view path,
                              const FeatureSignature&, FeatureSignature& feature) {
  BULKHEAD_RETURN_IF_ERROR(
      CheckCoordinates(path, feature, "float32 pairs [.., 2] or [.., K, 2]", 2, 3));
  feature.annotation->kind = Annotation::Kind::kKeypoints;
  feature.annotation->relative = stage.relative();
  return absl::OkStatus();
}

absl::Status DeclareMask(const v1::Mask& stage, absl::string_view path,
                         const FeatureSignature& image, FeatureSignature& feature) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, feature));
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, image));
  for (int i = 0; i < 2; ++i) {
    if (feature.shape[i] == image.shape[i] || feature.shape[i] == -1 || image.shape[i] == -1) {
      continue;
    }
    return SpecError(absl::StrCat(path, ".input"), "`", feature.name, "` is ",
                     DescribeFeature(feature), ", but `", image.name, "` is ",
                     DescribeFeature(image), " here; a mask has its image's height and width");
  }
  feature.annotation->kind = Annotation::Kind::kMask;
  feature.annotation->fill = stage.fill();
  return absl::OkStatus();
}

}  // namespace

StageKinds AnnotationKinds() {
  return Family(
      std::make_unique<DeclarationKind<v1::Boxes>>(
          "boxes",
          Option("format").Required("xyxy (left, top, right, bottom), xywh (left, top, width, "
                                    "height) or cxcywh (middle x, middle y, width, height)",
                                    "xyxy"),
          DeclareBoxes),
      std::make_unique<DeclarationKind<v1::Keypoints>>("keypoints", Option("relative"),
                                                       DeclareKeypoints),
      std::make_unique<DeclarationKind<v1::Mask>>(
          "mask", Option("fill").Default(0).Between(0, 255, "is $0; a pixel's values end at 255"),
          DeclareMask));
}

}  // namespace bulkhead
