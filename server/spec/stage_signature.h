#ifndef BULKHEAD_SERVER_SPEC_STAGE_SIGNATURE_H_
#define BULKHEAD_SERVER_SPEC_STAGE_SIGNATURE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"

namespace bulkhead {

// Pixels that decode_image accepts where the spec does not say.
inline constexpr uint64_t kDefaultMaxPixels = 32'000'000;

// "resize": how specs call the stage; empty when none is set.
std::string StageName(const v1::Stage& stage);

// The feature that the stage reads and replaces, its default filled in; empty for a fault, which
// reads none, and when no stage is set.
std::string StageInput(const v1::Stage& stage);

// Whether the stage draws random numbers.
bool IsRandomStage(const v1::Stage& stage);

// Channels that decode_image gives: 1, 3 or 4, from `color`, else from `channels`, else 3.
int64_t DecodedChannels(const v1::DecodeImage& decode);

// What `stage` makes of `input`. `path` is the stage's place in the spec ("stages[2].resize").
// Errors: INVALID_ARGUMENT (SPEC_INVALID) with metadata `path` when it cannot take such a feature.
absl::StatusOr<FeatureSignature> StageOutput(const v1::Stage& stage, const FeatureSignature& input,
                                             absl::string_view path);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_STAGE_SIGNATURE_H_
