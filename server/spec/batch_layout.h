#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "bulkhead/v1/types.pb.h"
#include "server/stages/declaration/batch_outputs.h"
#include "server/stages/declaration/feature_signature.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// Every tensor of a batch begins at a multiple of this: a cache line, which also suits any SIMD
// load.
inline constexpr uint64_t kTensorAlignment = 64;
// A larger batch must be a mistake in the spec.
inline constexpr uint64_t kMaxBatchBytes = uint64_t{1} << 40;

// Lays `features` out as one batch of `batch_size` samples, in the order of `outputs` (all, sorted
// by name, when that is empty). A variable feature is followed by `<name>_count`, one whose height
// and width vary by batch by `<name>_size`. Outputs named in `unknown` are left out. Problems: an
// unknown or repeated output, one without a static bound, a name used twice, a batch of more than
// kMaxBatchBytes. If there are problems, the layout has only the outputs without one.
v1::BatchSchema LayOutBatch(const std::vector<FeatureSignature>& features,
                            const google::protobuf::RepeatedPtrField<std::string>& outputs,
                            uint64_t batch_size, const std::set<std::string>& unknown,
                            SpecProblems& problems);

}  // namespace bulkhead
