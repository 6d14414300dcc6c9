#include "server/stages/declaration/batch_kind.h"

namespace bulkhead {

const BatchKind* BatchKindOf(const v1::BatchStage& stage) {
  static constexpr BatchKinds (*kFamilies[])() = {MixKinds, PackingKinds, UserBatchKinds};
  return KindAmong<BatchKind>(kFamilies, stage);
}

}  // namespace bulkhead
