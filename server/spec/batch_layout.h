#ifndef BULKHEAD_SERVER_SPEC_BATCH_LAYOUT_H_
#define BULKHEAD_SERVER_SPEC_BATCH_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "bulkhead/v1/types.pb.h"
#include "server/stages/declaration/batch_outputs.h"
#include "server/stages/declaration/feature_signature.h"

namespace bulkhead {

// Every tensor of a batch begins at a multiple of this: a cache line, and enough for any SIMD load.
inline constexpr uint64_t kTensorAlignment = 64;
// A batch larger than this is a mistake in the spec, not a plan.
inline constexpr uint64_t kMaxBatchBytes = uint64_t{1} << 40;

// Lays `features` out as one batch of `batch_size` samples, in the order of `outputs` (all, sorted
// by name, when that is empty). A variable feature is followed by `<name>_count`, one whose height
// and width vary by batch by `<name>_size`.
// Errors: INVALID_ARGUMENT (SPEC_INVALID) with metadata `path` for an unknown or repeated output,
// one without a static bound, a name used twice, and a batch of more than kMaxBatchBytes.
absl::StatusOr<v1::BatchSchema> LayOutBatch(
    const std::vector<FeatureSignature>& features,
    const google::protobuf::RepeatedPtrField<std::string>& outputs, uint64_t batch_size);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_BATCH_LAYOUT_H_
