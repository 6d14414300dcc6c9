#include "server/spec/stages/stage_kind.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "server/spec/stage_signature.h"
#include "server/spec/stages/kind_families.h"

namespace bulkhead {
namespace {

std::map<int, std::unique_ptr<StageKind>> AllKinds() {
  std::map<int, std::unique_ptr<StageKind>> kinds;
  for (auto* family : {DecodeKinds, GeometryKinds, ColorKinds, WarpKinds, AnnotationKinds, BoxKinds,
                       MosaicKinds, NumberKinds, UserKinds, FaultKinds, CacheKinds}) {
    for (NumberedKind& kind : family()) kinds.emplace(std::move(kind));
  }
  return kinds;
}

}  // namespace

const StageKind* KindOf(const v1::Stage& stage) {
  static const auto& kinds = *new std::map<int, std::unique_ptr<StageKind>>(AllKinds());
  const auto found = kinds.find(stage.stage_case());
  return found == kinds.end() ? nullptr : found->second.get();
}

void NormalizeStage(v1::Stage& stage, const std::string& path, SpecProblems& problems) {
  const StageKind* kind = KindOf(stage);
  if (kind == nullptr) {
    problems.Add(path, "is empty: name a stage, such as decode_image: {}");
    return;
  }
  kind->Normalize(stage, absl::StrCat(path, ".", StageName(stage)), problems);
}

}  // namespace bulkhead
