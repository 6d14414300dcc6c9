#include "server/stages/declaration/stage_kind.h"

#include "absl/strings/str_cat.h"
#include "server/stages/declaration/families.h"

namespace bulkhead {
std::vector<std::string> StageKind::WorksOn(const v1::Stage& stage,
                                            const std::vector<FeatureSignature>&) const {
  std::vector<std::string> names = Reads(stage);
  for (std::string& name : Makes(stage)) names.push_back(std::move(name));
  return names;
}

const StageKind* KindOf(const v1::Stage& stage) {
  return KindAmong<StageKind>(kStageFamilies, stage);
}

const StageTraits& TraitsOf(const v1::Stage& stage) {
  static constexpr StageTraits kNone;
  const StageKind* kind = KindOf(stage);
  return kind == nullptr ? kNone : kind->traits();
}

void NormalizeStageOptions(v1::Stage& stage, const std::string& path, SpecProblems& problems) {
  const StageKind* kind = KindOf(stage);
  if (kind == nullptr) {
    problems.Add(path, "is empty: name a stage, such as decode_image: {}");
    return;
  }
  const std::string place = absl::StrCat(path, ".", StageName(stage));
  kind->options().Normalize(MutableOptionsOf(stage), place, problems);
  kind->CheckRules(stage, place, problems);
}

}  // namespace bulkhead
