#include <utility>

#include "server/base/error.h"
#include "server/pipeline/make_pipeline.h"
#include "server/pipeline/pipeline.h"

namespace bulkhead {

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Create(
    const internal::v1::PipelineBinding& binding) {
  v1::PipelineSpec spec;
  *spec.mutable_source() = binding.source();
  *spec.mutable_features() = binding.features();
  *spec.mutable_stages() = binding.stages();
  *spec.mutable_outputs() = binding.outputs();
  BULKHEAD_ASSIGN_OR_RETURN(std::unique_ptr<Source> source,
                            OpenSource(binding.source(), binding.features(), binding.resolved()));
  return MakePipeline(std::move(source), std::move(spec));
}

}  // namespace bulkhead
