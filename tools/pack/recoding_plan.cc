#include "tools/pack/recoding_plan.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead::tools {
namespace {

absl::Status Refuse(int stage, absl::string_view what) {
  return MakeError(
      absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
      absl::StrCat("stages[", stage, "] ", what, "; pack without another size or quality"));
}

absl::StatusOr<RecodingPlan::Image> ImageOf(const v1::DecodeImage& stage, int number) {
  if (stage.keep_16_bit()) return Refuse(number, "decodes 16 bits, a JPEG has 8");
  if (stage.color() == v1::COLOR_RGBA) return Refuse(number, "decodes alpha, a JPEG has none");
  return RecodingPlan::Image{stage.input(), stage.exif_orientation(), {}};
}

bool HasRowsOfFour(const v1::Feature& feature) {
  const bool is_tensor = feature.has_tensor() && feature.tensor().dtype() == v1::DTYPE_FLOAT32;
  const auto& shape = is_tensor ? feature.tensor().shape() : feature.float_().shape();
  return feature.has_boxes() || (shape.size() == 2 && shape[1] == 4);
}

// Notes that `name` holds coordinates of `image`, unless they are of no image that is packed.
void AddCoordinates(const std::string& name, const std::string& image, RecodingPlan& plan) {
  for (RecodingPlan::Image& packed : plan.images) {
    if (packed.name == image) packed.coordinates.push_back(name);
  }
}

}  // namespace

absl::StatusOr<RecodingPlan> RecodingPlan::Of(const v1::PipelineSpec& spec) {
  RecodingPlan plan;
  bool moved = false;  // a stage before may have moved pixels
  std::set<std::string> declared;
  google::protobuf::RepeatedPtrField<v1::Stage> stages;
  // Those of a mixture's sources are alike: they come from one packing.
  if (spec.source().has_mixture()) stages = spec.source().mixture().sources(0).stages();
  stages.MergeFrom(spec.stages());
  for (int i = 0; i < stages.size(); ++i) {
    const v1::Stage& stage = stages[i];
    const auto declares = [&](const auto& declaration, absl::string_view what) {
      declared.insert(declaration.input());
      if (declaration.relative()) return absl::OkStatus();
      if (moved) {
        return Refuse(i, absl::StrCat("declares ", what,
                                      " in pixels behind a stage that may have moved them"));
      }
      AddCoordinates(declaration.input(), declaration.image(), plan);
      return absl::OkStatus();
    };
    if (stage.has_decode_image()) {
      BULKHEAD_ASSIGN_OR_RETURN(Image image, ImageOf(stage.decode_image(), i));
      plan.images.push_back(std::move(image));
    } else if (stage.has_boxes()) {
      BULKHEAD_RETURN_IF_ERROR(declares(stage.boxes(), "boxes"));
    } else if (stage.has_keypoints()) {
      BULKHEAD_RETURN_IF_ERROR(declares(stage.keypoints(), "points"));
    } else if (stage.has_mask()) {
      return Refuse(i, "declares a mask, whose values a JPEG does not keep");
    } else if (!stage.has_cache()) {
      moved = true;
    }
  }
  for (const auto& [name, feature] : spec.features()) {
    if (HasRowsOfFour(feature) && declared.count(name) == 0) plan.undeclared.push_back(name);
  }
  std::sort(plan.undeclared.begin(), plan.undeclared.end());
  if (plan.images.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                     "stages: no decode_image says which feature is an image; add one, or pack "
                     "without another size or quality");
  }
  return plan;
}

}  // namespace bulkhead::tools
