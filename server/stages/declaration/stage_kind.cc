#include "server/stages/declaration/stage_kind.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "server/stages/declaration/families.h"

namespace bulkhead {
namespace {

using google::protobuf::Descriptor;

std::map<const Descriptor*, std::unique_ptr<const StageKind>> AllKinds() {
  std::map<const Descriptor*, std::unique_ptr<const StageKind>> kinds;
  for (auto* family : {DecodeKinds, GeometryKinds, ColorKinds, WarpKinds, AnnotationKinds, BoxKinds,
                       MosaicKinds, NumberKinds, UserKinds, FaultKinds, CacheKinds}) {
    for (auto& kind : family()) kinds.emplace(kind->options().message(), std::move(kind));
  }
  return kinds;
}

}  // namespace

std::vector<std::string> StageKind::WorksOn(const v1::Stage& stage,
                                            const std::vector<FeatureSignature>&) const {
  std::vector<std::string> names = Reads(stage);
  for (std::string& name : Makes(stage)) names.push_back(std::move(name));
  return names;
}

std::string StageName(const v1::Stage& stage) {
  if (stage.stage_case() == v1::Stage::STAGE_NOT_SET) return "";
  return v1::Stage::descriptor()->FindFieldByNumber(stage.stage_case())->name();
}

const google::protobuf::Message& OptionsOf(const v1::Stage& stage) {
  return stage.GetReflection()->GetMessage(
      stage, v1::Stage::descriptor()->FindFieldByNumber(stage.stage_case()));
}

google::protobuf::Message& MutableOptionsOf(v1::Stage& stage) {
  return *stage.GetReflection()->MutableMessage(
      &stage, v1::Stage::descriptor()->FindFieldByNumber(stage.stage_case()));
}

const StageKind* KindOf(const v1::Stage& stage) {
  static const auto& kinds = *new auto(AllKinds());
  if (stage.stage_case() == v1::Stage::STAGE_NOT_SET) return nullptr;
  return kinds.at(OptionsOf(stage).GetDescriptor()).get();
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
