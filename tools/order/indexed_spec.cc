#include "tools/order/indexed_spec.h"

#include <utility>

#include "server/base/error.h"
#include "server/sampler/mixture_order.h"
#include "server/source/numbered_source.h"

namespace bulkhead::tools {
namespace {

// What the spec says about each of its sources, as a spec with that source alone.
std::vector<v1::PipelineSpec> SpecsOfSources(const v1::PipelineSpec& spec) {
  if (!spec.source().has_mixture()) return {spec};
  std::vector<v1::PipelineSpec> specs;
  for (const v1::MixedSource& mixed : spec.source().mixture().sources()) {
    v1::PipelineSpec& alone = specs.emplace_back();
    *alone.mutable_source() = mixed.source();
    *alone.mutable_features() = mixed.features();
    *alone.mutable_order() = mixed.order();
  }
  return specs;
}

}  // namespace

absl::StatusOr<std::unique_ptr<IndexedSpec>> IndexedSpec::Create(
    const v1::PipelineSpec& spec, const std::string& base_dir,
    const IndexedSource::ProgressFn& progress) {
  std::unique_ptr<IndexedSpec> indexed(new IndexedSpec());
  indexed->mixture_ = spec.source().has_mixture();
  for (const v1::PipelineSpec& alone : SpecsOfSources(spec)) {
    BULKHEAD_ASSIGN_OR_RETURN(auto source, IndexedSource::Create(alone, base_dir, progress));
    const auto& names = source->file_names();
    const auto& records = source->file_records();
    indexed->file_names_.insert(indexed->file_names_.end(), names.begin(), names.end());
    indexed->file_records_.insert(indexed->file_records_.end(), records.begin(), records.end());
    indexed->record_count_ += source->record_count();
    indexed->sources_.push_back(std::move(source));
  }
  BULKHEAD_RETURN_IF_ERROR(indexed->MakeOrders(spec));
  return indexed;
}

absl::Status IndexedSpec::MakeOrders(const v1::PipelineSpec& spec) {
  if (!mixture_) {
    samples_per_epoch_ = record_count_;
    BULKHEAD_ASSIGN_OR_RETURN(order_, MakeOrder(spec.order(), spec.seed(), file_records_));
    return absl::OkStatus();
  }
  const v1::MixtureSource& mixture = spec.source().mixture();
  std::vector<uint64_t> counts;
  std::vector<MixedRecords> mixed;
  for (size_t i = 0; i < sources_.size(); ++i) {
    const v1::MixedSource& source = mixture.sources(static_cast<int>(i));
    counts.push_back(sources_[i]->record_count());
    mixed.push_back({source.weight(), source.order(), sources_[i]->file_records()});
  }
  BULKHEAD_ASSIGN_OR_RETURN(samples_per_epoch_, MixtureSamplesPerEpoch(mixture, counts));
  BULKHEAD_ASSIGN_OR_RETURN(order_, MakeMixtureOrder(mixed, spec.seed(), samples_per_epoch_));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::unique_ptr<Source>>> IndexedSpec::Open() const {
  std::vector<std::unique_ptr<Source>> sources;
  for (const auto& indexed : sources_) {
    BULKHEAD_ASSIGN_OR_RETURN(std::unique_ptr<Source> source, indexed->Open());
    if (mixture_) {
      source = MakeNumberedSource(std::move(source), static_cast<int64_t>(sources.size()));
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace bulkhead::tools
