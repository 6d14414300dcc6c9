#include "server/stages/declaration/batch_kind.h"

#include <map>

namespace bulkhead {
namespace {

std::map<const google::protobuf::Descriptor*, std::unique_ptr<const BatchKind>> AllKinds() {
  std::map<const google::protobuf::Descriptor*, std::unique_ptr<const BatchKind>> kinds;
  for (auto* family : {MixKinds, PackingKinds, UserBatchKinds}) {
    for (auto& kind : family()) kinds.emplace(kind->options().message(), std::move(kind));
  }
  return kinds;
}

const google::protobuf::FieldDescriptor* FieldOf(const v1::BatchStage& stage) {
  return v1::BatchStage::descriptor()->FindFieldByNumber(stage.stage_case());
}

}  // namespace

const BatchKind* BatchKindOf(const v1::BatchStage& stage) {
  static const auto& kinds = *new auto(AllKinds());
  if (stage.stage_case() == v1::BatchStage::STAGE_NOT_SET) return nullptr;
  return kinds.at(OptionsOf(stage).GetDescriptor()).get();
}

const google::protobuf::Message& OptionsOf(const v1::BatchStage& stage) {
  return stage.GetReflection()->GetMessage(stage, FieldOf(stage));
}

google::protobuf::Message& MutableOptionsOf(v1::BatchStage& stage) {
  return *stage.GetReflection()->MutableMessage(&stage, FieldOf(stage));
}

}  // namespace bulkhead
