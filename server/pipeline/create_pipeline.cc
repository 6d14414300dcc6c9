#include <memory>
#include <utility>
#include <vector>

#include "server/base/error.h"
#include "server/pipeline/make_pipeline.h"
#include "server/pipeline/pipeline.h"
#include "server/spec/source_chain.h"

namespace bulkhead {

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Create(
    const internal::v1::PipelineBinding& binding, const UserCode& user_code) {
  v1::PipelineSpec spec;
  *spec.mutable_source() = binding.source();
  *spec.mutable_features() = binding.features();
  *spec.mutable_stages() = binding.stages();
  *spec.mutable_batch_stages() = binding.batch_stages();
  *spec.mutable_outputs() = binding.outputs();
  const std::vector<SourceChain> chains = SourceChains(spec);
  const bool mixture = spec.source().has_mixture();
  if (mixture && binding.resolved().mixed_size() != static_cast<int>(chains.size())) {
    return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                     "the mixture's sources were not all resolved; please report this");
  }
  std::vector<std::unique_ptr<Source>> sources;
  for (const SourceChain& chain : chains) {
    const internal::v1::ResolvedSource& resolved =
        mixture ? binding.resolved().mixed(static_cast<int>(sources.size())) : binding.resolved();
    BULKHEAD_ASSIGN_OR_RETURN(std::unique_ptr<Source> source,
                              OpenSource(*chain.source, *chain.features, resolved));
    sources.push_back(std::move(source));
  }
  PipelineOptions options;
  options.user_code = user_code;
  return MakePipeline(std::move(sources), std::move(spec), options);
}

}  // namespace bulkhead
