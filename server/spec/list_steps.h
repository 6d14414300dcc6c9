#pragma once

#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/source_chain.h"

namespace bulkhead {

// Adds the steps and cache points of `stages` to `chain`, in order; `prefix` is what stands before
// "stages" in their places. A stage that works on a list of images becomes a step for each image,
// and the chain's lists become those after the last stage.
void AddSteps(const google::protobuf::RepeatedPtrField<v1::Stage>& stages, absl::string_view prefix,
              SourceChain& chain);

}  // namespace bulkhead
