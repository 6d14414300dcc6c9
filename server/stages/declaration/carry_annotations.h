#ifndef BULKHEAD_SERVER_STAGES_DECLARATION_CARRY_ANNOTATIONS_H_
#define BULKHEAD_SERVER_STAGES_DECLARATION_CARRY_ANNOTATIONS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/feature_signature.h"
#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {

// What a stage of `kind` at `path` means for declared boxes, points and masks: `before` are the
// features that came in, `after` those that its Infer made of them, whose annotations are set
// right. A mask gets its image's new size. An annotation that the stage parts from its image is
// lost from then on. Errors: SPEC_INVALID when pixels move that an annotation which is lost already
// ought to follow.
absl::Status CarryAnnotations(const StageKind& kind, const v1::Stage& stage, absl::string_view path,
                              const std::vector<FeatureSignature>& before,
                              std::vector<FeatureSignature>& after);

// "`boxes` was parted from `image` by stages[2].python; declare it again behind that stage".
std::string DescribeLoss(const FeatureSignature& feature);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_DECLARATION_CARRY_ANNOTATIONS_H_
