#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"
#include "server/spec/stage_signature.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {

// A stage of a normalized spec and its surroundings.
struct StageSite {
  const v1::Stage& stage;
  StagePlace place;
  const std::vector<FeatureSignature>& before;  // the features that come in, sorted by name
  const std::vector<FeatureSignature>& after;   // those that go out

  // The `i`th feature that the stage reads: before the stage, and after it.
  const FeatureSignature& Input(size_t i = 0) const { return InputNamed(StageReads(stage)[i]); }
  const FeatureSignature& Output(size_t i = 0) const {
    return *FindFeature(after, StageReads(stage)[i]);
  }

  // The input feature `name`, which must exist.
  const FeatureSignature& InputNamed(const std::string& name) const {
    return *FindFeature(before, name);
  }

  // Channels of the image that the stage reads first.
  size_t channels() const { return static_cast<size_t>(Input().shape.back()); }
};

}  // namespace bulkhead
