#include <array>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "server/base/cast.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/stages/declaration/carry_annotations.h"
#include "server/stages/declaration/families.h"
#include "server/stages/declaration/feature_kind.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;

constexpr double kMaxRatio = 1000;
constexpr double kMaxPixels = 1e9;

// Checks that `input` has declared boxes that still follow an image.
absl::Status CheckBoxes(absl::string_view path, absl::string_view option,
                        const FeatureSignature& input) {
  const std::string place = absl::StrCat(path, ".", option);
  if (!input.annotation.has_value() || input.annotation->kind != Annotation::Kind::kBoxes) {
    return SpecError(place, "takes declared boxes, but `", input.name,
                     "` was not declared to be any; put boxes: {input: ", input.name,
                     ", format: …} before it");
  }
  if (input.annotation->lost_at.empty()) return absl::OkStatus();
  return SpecError(place, "needs the boxes of an image, but ", DescribeLoss(input));
}

void CheckConvert(v1::ConvertBoxes& stage, const std::string& path, SpecProblems& problems) {
  if (stage.to() == v1::BOX_FORMAT_UNSPECIFIED && !stage.has_relative()) {
    problems.Add(path, "changes nothing: give `to`, `relative`, or both");
  }
}

absl::StatusOr<FeatureSignature> InferConvert(const v1::ConvertBoxes& stage,
                                              const FeatureSignature& input,
                                              absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckBoxes(path, "input", input));
  FeatureSignature output = input;
  if (stage.to() != v1::BOX_FORMAT_UNSPECIFIED) output.annotation->format = stage.to();
  if (stage.has_relative()) output.annotation->relative = stage.relative();
  return output;
}

// `sanitize_boxes`: drops rows of several features.
class SanitizeKind : public StageKind {
 public:
  SanitizeKind()
      : StageKind(v1::SanitizeBoxes::descriptor(),
                  {Option("input").DefaultName("boxes"), With(),
                   Option("min_size")
                       .Default(1)
                       .Above(0, kMaxPixels, "must be above 0: empty boxes are of no use"),
                   Option("min_area").Default(0).Between(0, kMaxPixels),
                   Option("min_visibility").Default(0).Between(0, 1), Option("clamp").Default(true),
                   Option("epsilon").Default(0).Between(0, kMaxPixels)},
                  {.holds_result = true, .knows_annotations = true}) {}

  std::vector<std::string> Reads(const v1::Stage& stage) const override {
    std::vector<std::string> names = {NameOr(stage.sanitize_boxes().input(), "boxes")};
    names.insert(names.end(), stage.sanitize_boxes().with().begin(),
                 stage.sanitize_boxes().with().end());
    return names;
  }

  std::string ReadOption(const v1::Stage&, size_t i) const override {
    return i == 0 ? "input" : absl::StrCat("with[", i - 1, "]");
  }

  void CheckRules(v1::Stage& stage, const std::string& path,
                  SpecProblems& problems) const override {
    const v1::SanitizeBoxes& options = stage.sanitize_boxes();
    CheckWith(options, path, problems);
    if (options.epsilon() > 0 && options.epsilon() <= kMaxPixels && !options.clamp()) {
      problems.Add(path + ".epsilon", "says where boxes are cut; it goes with clamp: true");
    }
  }

  absl::Status Infer(const v1::Stage& stage, absl::string_view path,
                     std::vector<FeatureSignature>& features) const override {
    const std::vector<std::string> names = Reads(stage);
    for (size_t i = 0; i < names.size(); ++i) {
      FeatureSignature& feature = FeatureNamed(features, names[i]);
      const FeatureSignature& boxes = FeatureNamed(features, names[0]);
      const std::string option = ReadOption(stage, i);
      if (i == 0) BULKHEAD_RETURN_IF_ERROR(CheckBoxes(path, option, feature));
      if (!feature.variable) {
        return SpecError(absl::StrCat(path, ".", option), "drops rows, but `", feature.name,
                         "` is ", DescribeFeature(feature),
                         ", whose number of rows is fixed (from ", feature.path,
                         "); give it shape: [-1, …] and max_count, and put pad_rows behind this");
      }
      if (feature.shape[0] != boxes.shape[0]) {
        return SpecError(absl::StrCat(path, ".", option), "`", feature.name, "` has at most ",
                         feature.shape[0], " rows, but `", boxes.name, "` ", boxes.shape[0],
                         "; it must have a row for each box: give both the same max_count");
      }
      feature.path = std::string(path);
    }
    return absl::OkStatus();
  }
};

// `random_iou_crop`.
class IouCropKind : public StageKind {
 public:
  IouCropKind()
      : StageKind(v1::RandomIouCrop::descriptor(),
                  {Option("input").DefaultName("image"), Option("boxes").DefaultName("boxes"),
                   Option("scale").Default({0.3, 1}).RangeAbove(0, 1),
                   Option("ratio").Default({0.5, 2}).RangeAbove(0, kMaxRatio),
                   Option("min_overlap")
                       .Default({0, 0.1, 0.3, 0.5, 0.7, 0.9, 1})
                       .Count(0, 1000, "has more than $2 numbers")
                       .Between(0, kMaxRatio,
                                "must be numbers from 0 on; 1 and above leave the image as it is"),
                   Option("trials").Default(40).Between(1, 10'000, "is $0, over the limit of $2")},
                  {.is_random = true,
                   .holds_result = true,
                   .motion = StageTraits::Motion::kMoves,
                   .knows_annotations = true}) {}

  std::vector<std::string> Reads(const v1::Stage& stage) const override {
    return {NameOr(stage.random_iou_crop().input(), "image"),
            NameOr(stage.random_iou_crop().boxes(), "boxes")};
  }

  std::string ReadOption(const v1::Stage&, size_t i) const override {
    return i == 0 ? "input" : "boxes";
  }

  absl::Status Infer(const v1::Stage& stage, absl::string_view path,
                     std::vector<FeatureSignature>& features) const override {
    const std::vector<std::string> names = Reads(stage);
    FeatureSignature& image = FeatureNamed(features, names[0]);
    BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, image));
    FeatureSignature& boxes = FeatureNamed(features, names[1]);
    BULKHEAD_RETURN_IF_ERROR(CheckBoxes(path, "boxes", boxes));
    if (boxes.annotation->image != image.name) {
      return SpecError(absl::StrCat(path, ".boxes"), "`", boxes.name, "` holds boxes of `",
                       boxes.annotation->image, "`, not of `", image.name, "`");
    }
    image.shape[0] = image.shape[1] = -1;
    image.path = std::string(path);
    // A mask that is cut by itself no longer follows its image.
    if (image.annotation.has_value()) image.annotation->lost_at = std::string(path);
    return absl::OkStatus();
  }
};

// Whether elements of `dtype` can hold `value` exactly; for int64, within the integers that a
// double can hold.
bool Holds(v1::DType dtype, double value) {
  if (!IsInteger(dtype) && dtype != v1::DTYPE_BOOL) return true;
  std::array<std::byte, sizeof(int64_t)> element;
  double held = 0;
  CastElements(v1::DTYPE_FLOAT64, &value, dtype, element.data(), 1);
  CastElements(dtype, element.data(), v1::DTYPE_FLOAT64, &held, 1);
  return held == value && std::abs(value) <= 0x1p53;
}

// `pad_rows`: gives a feature a fixed number of rows, and may add its number of real rows as a
// feature.
class PadRowsKind : public StageKind {
 public:
  PadRowsKind()
      : StageKind(v1::PadRows::descriptor(),
                  {Option("input").DefaultName("boxes"),
                   Option("to")
                       .Otherwise("its bound")
                       .Between(1, kMaxExtent, "is $0; it must lie between $1 and $2"),
                   Option("value").Default(0).Only(
                       [](double value) { return !std::isnan(value); },
                       "must be a number: NaN equals nothing, not even itself"),
                   Option("count").Otherwise("none is made"),
                   Option("overflow").ImpliedDefault(v1::OVERFLOW_ERROR)},
                  {}) {}

  std::vector<std::string> Reads(const v1::Stage& stage) const override {
    return {NameOr(stage.pad_rows().input(), "boxes")};
  }

  std::vector<std::string> Makes(const v1::Stage& stage) const override {
    if (stage.pad_rows().count().empty()) return {};
    return {stage.pad_rows().count()};
  }

  absl::Status Infer(const v1::Stage& stage, absl::string_view path,
                     std::vector<FeatureSignature>& features) const override {
    const v1::PadRows& options = stage.pad_rows();
    FeatureSignature& feature = FeatureNamed(features, Reads(stage)[0]);
    if (!feature.variable) {
      return WrongInput(path, feature, "a feature with a varying number of rows",
                        "leave this stage out");
    }
    if (IsForDelivery(feature.dtype)) {
      return WrongInput(
          path, feature, "rows of a type that stages work with",
          absl::StrCat("return a fixed number of rows from your function, or another type than ",
                       DTypeName(feature.dtype)));
    }
    if (!Holds(feature.dtype, options.value())) {
      return SpecError(absl::StrCat(path, ".value"), "is ", options.value(), ", which ",
                       DTypeName(feature.dtype), " cannot hold (`", feature.name, "` is ",
                       DescribeFeature(feature), ")");
    }
    feature.variable = false;
    if (options.to() > 0) feature.shape[0] = options.to();
    feature.path = std::string(path);
    if (options.count().empty()) return absl::OkStatus();
    FeatureSignature count;
    count.name = options.count();
    count.dtype = v1::DTYPE_INT64;
    count.path = std::string(path);
    return InsertFeature(std::move(count), absl::StrCat(path, ".count"), features);
  }
};

}  // namespace

StageKinds BoxKinds() {
  return Family(Declare<v1::ConvertBoxes>({.input = "boxes",
                                           .options = {Option("to").Otherwise("as they are"),
                                                       Option("relative").Otherwise("as they are")},
                                           .rules = CheckConvert,
                                           .infer = InferConvert,
                                           .traits = {.knows_annotations = true}}),
                std::make_unique<SanitizeKind>(), std::make_unique<IouCropKind>(),
                std::make_unique<PadRowsKind>());
}

}  // namespace bulkhead
