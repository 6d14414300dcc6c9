#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/feature_signature.h"
#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {

// Carries declared boxes, points and masks through a stage of `kind` at `path`. `before`: its input
// features; `after`: those that its Infer returned, whose annotations are set here. A mask gets its
// image's new size. An annotation that the stage separates from its image is lost. Errors:
// SPEC_INVALID if pixels move that a lost annotation should have followed.
absl::Status CarryAnnotations(const StageKind& kind, const v1::Stage& stage, absl::string_view path,
                              const std::vector<FeatureSignature>& before,
                              std::vector<FeatureSignature>& after);

// "`boxes` and its image `image` were separated by stages[2].python, …".
std::string DescribeLoss(const FeatureSignature& feature);

}  // namespace bulkhead
