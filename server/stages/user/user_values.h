#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bulkhead/v1/stages.pb.h"
#include "server/spec/signature.h"
#include "server/stages/running/sample_stage.h"
#include "server/stages/running/stage_site.h"

namespace bulkhead {

// Writes as many extents as the shape of `input`, a feature that a stage reads, has dimensions.
void ExtentsOf(const FeatureSignature& input, const Value& value, int64_t* extents);

// Where user code writes a feature.
struct UserOutput {
  v1::StageOutput declared;
  size_t element_bytes = 1;  // bytes: 1
  // With the bound as the first dimension, if that is variable; for bytes, the bound alone.
  std::vector<int64_t> shape;
  bool variable = false;  // the first extent is a bound
  bool is_image = false;
  size_t max_bytes = 0;
  size_t offset = 0;  // in the stage's scratch, a multiple of 64

  // Sets `value` to the output at `data`: `count` rows of a variable output, or bytes.
  void Become(std::byte* data, int64_t count, Value& value) const;
};

// What a stage with user code reads and makes.
struct UserValues {
  std::vector<FeatureSignature> inputs;
  std::vector<UserOutput> outputs;
  size_t scratch_bytes = 0;  // of all outputs together

  // Made from the features before and after the stage.
  static UserValues Of(const StageSite& site,
                       const google::protobuf::RepeatedPtrField<std::string>& inputs,
                       const google::protobuf::RepeatedPtrField<v1::StageOutput>& outputs);
};

}  // namespace bulkhead
