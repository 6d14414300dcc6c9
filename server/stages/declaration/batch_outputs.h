#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/types.pb.h"
#include "server/stages/declaration/feature_signature.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {

// The names of the outputs that accompany an output `name`: its number of filled rows if that is
// variable (int64 []), the batch's height and width (int64 [2]), and, added by clients, where each
// sample's rows begin (int64 [samples + 1]).
std::string CountName(absl::string_view name);
std::string SizeName(absl::string_view name);
std::string OffsetsName(absl::string_view name);

// "float32 [1000]": one row of an output.
std::string DescribeRow(v1::DType dtype,
                        const google::protobuf::RepeatedField<google::protobuf::int64>& shape);
inline std::string DescribeRow(const v1::TensorSchema& tensor) {
  return DescribeRow(tensor.dtype(), tensor.shape());
}

// The outputs as each batch stage finds them. Each stage notes what it makes and packs. Refers to
// its arguments.
class BatchOutputs {
 public:
  // `features`: those after the last stage for samples. `there`: the outputs before the first batch
  // stage.
  BatchOutputs(const std::vector<FeatureSignature>& features, const v1::BatchSchema& schema,
               std::set<std::string> there)
      : features_(features), schema_(schema), there_(std::move(there)) {}

  const std::vector<FeatureSignature>& features() const { return features_; }
  // Null if samples have no such feature.
  const FeatureSignature* Feature(absl::string_view name) const {
    return FindFeature(features_, name);
  }
  // Null if it is not an output.
  const v1::TensorSchema* Tensor(absl::string_view name) const;
  bool IsThere(const std::string& name) const { return there_.count(name) > 0; }
  bool IsPacked(const std::string& name) const { return packed_at_.count(name) > 0; }

  // The output `name`, which a stage works on. Errors: SPEC_INVALID at `path` if it does not exist
  // or is packed.
  absl::StatusOr<const v1::TensorSchema*> Need(const std::string& name,
                                               const std::string& path) const;

  void Make(const std::string& name) { there_.insert(name); }
  // `path`: the stage after which the samples of `name` have no fixed place.
  void Pack(const std::string& name, const std::string& path) { packed_at_[name] = path; }

 private:
  const std::vector<FeatureSignature>& features_;
  const v1::BatchSchema& schema_;
  std::set<std::string> there_;
  std::map<std::string, std::string> packed_at_;  // by output: the stage that packed it
};

}  // namespace bulkhead
