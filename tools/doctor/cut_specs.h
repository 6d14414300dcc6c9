#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"

namespace bulkhead::tools {

// The beginning of a spec: its source and the first stages.
struct SpecPrefix {
  int stages = 0;     // of the common ones; 0: the source alone, in a mixture with its own stages
  std::string title;  // "stages[0] … stages[1] python", "source"
  v1::PipelineSpec spec;
  // Why it cannot run, for people; then `spec` is empty.
  std::string impossible;
  // Stages that were added, which bring images of any size to one.
  std::string added;
};

// Every prefix of `spec`, which is normalized, the shortest first, without the batch stages: the
// one with all stages only if there are batch stages. They deliver what of the features then there
// can be delivered. Errors: those of InferSignature.
absl::StatusOr<std::vector<SpecPrefix>> PrefixesOf(const v1::PipelineSpec& spec);

// The features before common stage `stages` of a spec with that signature; in a mixture those of
// its first source.
const std::vector<FeatureSignature>& FeaturesBefore(const v1::PipelineSpec& spec,
                                                    const PipelineSignature& signature, int stages);

// Makes those of `names` the outputs of `spec` that can be, and normalizes it. False if none can.
bool AskFor(const std::vector<std::string>& names, v1::PipelineSpec& spec);

}  // namespace bulkhead::tools
