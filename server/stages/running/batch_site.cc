#include "server/stages/running/batch_site.h"

#include <algorithm>

#include "server/spec/batch_stages.h"
#include "server/stages/declaration/stage_checks.h"
#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {

BatchSite::BatchSite(const v1::PipelineSpec& spec, const PipelineSignature& signature, int index)
    : spec_(spec),
      schema_(signature.schema),
      features_(signature.sources[0].FeaturesBefore(signature.sources[0].features_after.size())),
      index_(index) {}

StagePlace BatchSite::place() const { return {BatchStagePath(index_), StageName(stage())}; }

bool BatchSite::Has(const std::string& name) const {
  return NumberOf(name) < static_cast<size_t>(schema_.tensors_size());
}

size_t BatchSite::NumberOf(const std::string& name) const {
  const auto& tensors = schema_.tensors();
  return std::find_if(tensors.begin(), tensors.end(),
                      [&](const v1::TensorSchema& tensor) { return tensor.name() == name; }) -
         tensors.begin();
}

const v1::TensorSchema& BatchSite::SchemaOf(const std::string& name) const {
  return schema_.tensors(static_cast<int>(NumberOf(name)));
}

BatchTensor BatchSite::TensorOf(const std::string& name) const {
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

}  // namespace bulkhead
