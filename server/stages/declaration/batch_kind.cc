#include "server/stages/declaration/batch_kind.h"

namespace bulkhead {

const BatchKind* BatchKindOf(const v1::BatchStage& stage) {
  static constexpr BatchKinds (*kFamilies[])() = {MixKinds, PackingKinds, UserBatchKinds};
  return KindAmong<BatchKind>(kFamilies, stage);
}

const BatchTraits& TraitsOf(const v1::BatchStage& stage) {
  static constexpr BatchTraits kNone;
  const BatchKind* const kind = BatchKindOf(stage);
  return kind == nullptr ? kNone : kind->traits();
}

}  // namespace bulkhead
