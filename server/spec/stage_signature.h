#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/common_options.h"
#include "server/stages/declaration/feature_signature.h"
#include "server/stages/declaration/stage_checks.h"
#include "server/stages/declaration/stage_kind.h"
#include "server/stages/decode/declare.h"

namespace bulkhead {

// The features that the stage reads, in its order, defaults filled in; none for a fault, or if no
// stage is set.
std::vector<std::string> StageReads(const v1::Stage& stage);

// The features that the stage makes, in its order; none if it replaces what it reads.
std::vector<std::string> StageMakes(const v1::Stage& stage);

// How the stage decodes images; none if it does not.
std::optional<Decoding> DecodingOf(const v1::Stage& stage);

// Whether random numbers change the result of this normalized stage. Those of a flip with
// probability 0 or 1 do not. A user stage may draw some.
bool IsRandomStage(const v1::Stage& stage);

// The features that the running stage works on, in the order of its values: those that it reads of
// `before`, then those that it makes.
std::vector<std::string> StageWorksOn(const v1::Stage& stage,
                                      const std::vector<FeatureSignature>& before);

// Turns the features before `stage`, sorted by name, into those after it. Features that it wrote
// get `path`, the stage's place in the spec ("stages[2].resize"). Errors: INVALID_ARGUMENT
// (SPEC_INVALID) with metadata `path` if it cannot take its input.
absl::Status InferStage(const v1::Stage& stage, absl::string_view path,
                        std::vector<FeatureSignature>& features);

}  // namespace bulkhead
