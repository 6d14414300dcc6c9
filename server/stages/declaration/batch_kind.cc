#include "server/stages/declaration/batch_kind.h"

namespace bulkhead {

const BatchKind* BatchKindOf(const v1::BatchStage& stage) {
  return KindAmong<BatchKind>({MixKinds, PackingKinds, UserBatchKinds}, stage);
}

}  // namespace bulkhead
