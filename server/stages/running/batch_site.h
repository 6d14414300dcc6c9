#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/image.h"
#include "server/spec/batch_stages.h"
#include "server/spec/signature.h"
#include "server/stages/declaration/stage_checks.h"
#include "server/stages/declaration/stage_kind.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {

// A tensor of a batch, as a batch stage works on it.
struct BatchTensor {
  size_t number = 0;  // in the schema
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  size_t row_bytes = 0;
  // Of an image.
  ImageSize size;
  size_t channels = 0;
  bool channels_first = false;
};

// A batch stage of a normalized spec and what it works on. Points into the spec and its signature.
class BatchSite {
 public:
  BatchSite(const v1::PipelineSpec& spec, const PipelineSignature& signature, int index)
      : spec_(spec),
        schema_(signature.schema),
        features_(signature.sources[0].FeaturesBefore(signature.sources[0].features_after.size())),
        index_(index) {}

  const v1::PipelineSpec& spec() const { return spec_; }
  int index() const { return index_; }
  const v1::BatchStage& stage() const { return spec_.batch_stages(index_); }
  StagePlace place() const { return {BatchStagePath(index_), StageName(stage())}; }
  // The features after the last stage for samples.
  const std::vector<FeatureSignature>& features() const { return features_; }

  // Whether the batch has a tensor `name`; its number in the schema; its schema.
  bool Has(const std::string& name) const {
    return NumberOf(name) < static_cast<size_t>(schema_.tensors_size());
  }

  size_t NumberOf(const std::string& name) const {
    const auto& tensors = schema_.tensors();
    return std::find_if(tensors.begin(), tensors.end(),
                        [&](const v1::TensorSchema& tensor) { return tensor.name() == name; }) -
           tensors.begin();
  }

  const v1::TensorSchema& SchemaOf(const std::string& name) const {
    return schema_.tensors(static_cast<int>(NumberOf(name)));
  }

  BatchTensor TensorOf(const std::string& name) const {
    const v1::TensorSchema& schema = SchemaOf(name);
    BatchTensor tensor;
    tensor.number = NumberOf(name);
    tensor.dtype = schema.dtype();
    tensor.row_bytes = schema.sample_bytes();
    const FeatureSignature* const feature = FindFeature(features_, name);
    if (feature == nullptr || feature->kind != FeatureSignature::Kind::kImage) return tensor;
    tensor.channels_first = feature->channels_first;
    const size_t first = tensor.channels_first ? 1 : 0;  // of height and width
    tensor.size = {static_cast<int>(feature->shape[first]),
                   static_cast<int>(feature->shape[first + 1])};
    tensor.channels = static_cast<size_t>(feature->shape[tensor.channels_first ? 0 : 2]);
    return tensor;
  }

 private:
  const v1::PipelineSpec& spec_;
  const v1::BatchSchema& schema_;
  const std::vector<FeatureSignature>& features_;
  int index_;
};

}  // namespace bulkhead
