#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/image.h"
#include "server/spec/signature.h"
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
  BatchSite(const v1::PipelineSpec& spec, const PipelineSignature& signature, int index);

  const v1::PipelineSpec& spec() const { return spec_; }
  int index() const { return index_; }
  const v1::BatchStage& stage() const { return spec_.batch_stages(index_); }
  StagePlace place() const;
  // The features after the last stage for samples.
  const std::vector<FeatureSignature>& features() const { return features_; }

  // Whether the batch has a tensor `name`; its number in the schema; its schema.
  bool Has(const std::string& name) const;
  size_t NumberOf(const std::string& name) const;
  const v1::TensorSchema& SchemaOf(const std::string& name) const;
  BatchTensor TensorOf(const std::string& name) const;

 private:
  const v1::PipelineSpec& spec_;
  const v1::BatchSchema& schema_;
  const std::vector<FeatureSignature>& features_;
  int index_;
};

}  // namespace bulkhead
