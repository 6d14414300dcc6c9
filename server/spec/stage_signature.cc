#include "server/spec/stage_signature.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/spec/nearest_name.h"
#include "server/spec/spec_error.h"
#include "server/spec/stages/carry_annotations.h"
#include "server/spec/stages/stage_kind.h"

namespace bulkhead {

std::string StageName(const v1::Stage& stage) {
  if (stage.stage_case() == v1::Stage::STAGE_NOT_SET) return "";
  return v1::Stage::descriptor()->FindFieldByNumber(stage.stage_case())->name();
}

std::vector<std::string> StageReads(const v1::Stage& stage) {
  const StageKind* kind = KindOf(stage);
  return kind == nullptr ? std::vector<std::string>() : kind->Reads(stage);
}

std::vector<std::string> StageMakes(const v1::Stage& stage) {
  const StageKind* kind = KindOf(stage);
  return kind == nullptr ? std::vector<std::string>() : kind->Makes(stage);
}

bool IsRandomStage(const v1::Stage& stage) {
  const StageKind* kind = KindOf(stage);
  return kind != nullptr && kind->IsRandom(stage);
}

bool HoldsResult(const v1::Stage& stage) {
  const StageKind* kind = KindOf(stage);
  return kind != nullptr && kind->traits().holds_result;
}

bool MovesPixels(const v1::Stage& stage) {
  const StageKind* kind = KindOf(stage);
  return kind != nullptr && kind->traits().motion == StageTraits::Motion::kMoves;
}

bool DeclaresAnnotation(const v1::Stage& stage) {
  return stage.has_boxes() || stage.has_keypoints() || stage.has_mask();
}

bool MayEnlarge(const v1::Stage& stage) {
  const StageKind* kind = KindOf(stage);
  return kind != nullptr && kind->traits().may_enlarge;
}

int64_t DecodedChannels(const v1::DecodeImage& decode) {
  switch (decode.color()) {
    case v1::COLOR_GRAY:
      return 1;
    case v1::COLOR_RGBA:
      return 4;
    case v1::COLOR_RGB:
    case v1::COLOR_BGR:
      return 3;
    default:
      return decode.channels() == 0 ? 3 : static_cast<int64_t>(decode.channels());
  }
}

absl::Status InferStage(const v1::Stage& stage, absl::string_view path,
                        std::vector<FeatureSignature>& features) {
  const StageKind* kind = KindOf(stage);
  if (kind == nullptr) return SpecError(path, "is empty: name a stage, such as decode_image: {}");
  std::vector<std::string> names;
  for (const FeatureSignature& feature : features) names.push_back(feature.name);
  const std::vector<std::string> reads = kind->Reads(stage);
  for (size_t i = 0; i < reads.size(); ++i) {
    if (std::find(names.begin(), names.end(), reads[i]) != names.end()) continue;
    return SpecError(absl::StrCat(path, ".", kind->ReadOption(stage, i)),
                     UnknownName("feature", reads[i], names));
  }
  const std::vector<FeatureSignature> before = features;
  BULKHEAD_RETURN_IF_ERROR(kind->Infer(stage, path, features));
  return CarryAnnotations(*kind, stage, path, before, features);
}

}  // namespace bulkhead
