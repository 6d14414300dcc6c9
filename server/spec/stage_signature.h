#ifndef BULKHEAD_SERVER_SPEC_STAGE_SIGNATURE_H_
#define BULKHEAD_SERVER_SPEC_STAGE_SIGNATURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"

namespace bulkhead {

// Pixels that decode_image accepts where the spec does not say.
inline constexpr uint64_t kDefaultMaxPixels = 36'000'000;

// Features whose rows sanitize_boxes drops along with boxes, at most.
inline constexpr int kMaxSanitizedWith = 64;

// "resize": how specs call the stage; empty when none is set.
std::string StageName(const v1::Stage& stage);

// The features that the stage reads, in its order, defaults filled in; none for a fault, and when
// no stage is set.
std::vector<std::string> StageReads(const v1::Stage& stage);

// The features that the stage makes by name, in its order; none where it replaces what it reads.
std::vector<std::string> StageMakes(const v1::Stage& stage);

// Whether the stage, which is normalized, draws random numbers that decide anything: a flip of
// probability 0 or 1 does not. A stage of the user's may.
bool IsRandomStage(const v1::Stage& stage);

// Whether the stage's result lies in a worker's own memory, whatever comes next.
bool HoldsResult(const v1::Stage& stage);

// Whether images of unknown size may come out larger than they went in, up to kDefaultMaxPixels.
bool MayEnlarge(const v1::Stage& stage);

// Whether it moves the pixels of the first feature that it reads, and with them what belongs to it.
bool MovesPixels(const v1::Stage& stage);

// Whether the stage only says what a feature is to an image: nothing changes.
bool DeclaresAnnotation(const v1::Stage& stage);

// Channels that decode_image gives: 1, 3 or 4, from `color`, else from `channels`, else 3.
int64_t DecodedChannels(const v1::DecodeImage& decode);

// Turns the features before `stage`, sorted by name, into those after it; the `path` of those it
// wrote is `path`, the stage's place in the spec ("stages[2].resize"). Errors: INVALID_ARGUMENT
// (SPEC_INVALID) with metadata `path` when it cannot take what it gets.
absl::Status InferStage(const v1::Stage& stage, absl::string_view path,
                        std::vector<FeatureSignature>& features);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_STAGE_SIGNATURE_H_
