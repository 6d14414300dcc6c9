#include "server/spec/stage_signature.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/nearest_name.h"
#include "server/stages/declaration/carry_annotations.h"
#include "server/stages/declaration/spec_error.h"
#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {
std::vector<std::string> StageReads(const v1::Stage& stage) {
  const StageKind* kind = KindOf(stage);
  return kind == nullptr ? std::vector<std::string>() : kind->Reads(stage);
}

std::vector<std::string> StageMakes(const v1::Stage& stage) {
  const StageKind* kind = KindOf(stage);
  return kind == nullptr ? std::vector<std::string>() : kind->Makes(stage);
}

std::optional<Decoding> DecodingOf(const v1::Stage& stage) {
  const StageKind* kind = KindOf(stage);
  return kind == nullptr ? std::nullopt : kind->DecodingOf(stage);
}

bool IsRandomStage(const v1::Stage& stage) {
  const StageKind* kind = KindOf(stage);
  return kind != nullptr && kind->IsRandom(stage);
}

std::vector<std::string> StageWorksOn(const v1::Stage& stage,
                                      const std::vector<FeatureSignature>& before) {
  const StageKind* kind = KindOf(stage);
  return kind == nullptr ? std::vector<std::string>() : kind->WorksOn(stage, before);
}

absl::Status InferStage(const v1::Stage& stage, absl::string_view path,
                        std::vector<FeatureSignature>& features) {
  const StageKind* kind = KindOf(stage);
  if (kind == nullptr) return SpecError(path, "is empty: name a stage, such as decode_image: {}");
  std::vector<std::string> names;
  for (const FeatureSignature& feature : features) names.push_back(feature.name);
  const std::vector<std::string> reads = kind->Reads(stage);
  for (size_t i = 0; i < reads.size(); ++i) {
    const auto place = std::find(names.begin(), names.end(), reads[i]);
    if (place != names.end()) {
      const FeatureSignature& read = features[place - names.begin()];
      if (!read.normalization.has_value() || kind->traits().keeps_numbers) continue;
      return SpecError(absl::StrCat(path, ".", kind->ReadOption(stage, i)), "`", read.name,
                       "` is normalized by the trainer (at: trainer, ", read.normalized_at,
                       "); only layout and cast may follow: put this stage ",
                       "before that one, or write at: worker");
    }
    return SpecError(absl::StrCat(path, ".", kind->ReadOption(stage, i)),
                     UnknownName("feature", reads[i], names));
  }
  BULKHEAD_RETURN_IF_ERROR(kind->options().CheckRequired(OptionsOf(stage), path));
  const std::vector<FeatureSignature> before = features;
  BULKHEAD_RETURN_IF_ERROR(kind->Infer(stage, path, features));
  return CarryAnnotations(*kind, stage, path, before, features);
}

}  // namespace bulkhead
