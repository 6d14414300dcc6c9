#include "tools/local/indexed_spec.h"

#include <utility>

#include "server/base/error.h"
#include "server/os/filesystem.h"
#include "server/sampler/mixture_order.h"
#include "server/source/numbered_source.h"
#include "server/spec/source_chain.h"

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
    *alone.mutable_filter() = mixed.filter();
    if (mixed.has_split()) *alone.mutable_split() = mixed.split();
    alone.set_skip(mixed.skip());
    if (mixed.has_take()) alone.set_take(mixed.take());
    *alone.mutable_errors() = spec.errors();
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
    auto created = IndexedSource::Create(alone, base_dir, progress);
    if (!created.ok() && indexed->mixture_) {
      return Annotate(created.status(),
                      MixedSourcePath(static_cast<int>(indexed->sources_.size())));
    }
    BULKHEAD_ASSIGN_OR_RETURN(auto source, std::move(created));
    const auto& names = source->file_names();
    const auto& records = source->file_records();
    indexed->file_names_.insert(indexed->file_names_.end(), names.begin(), names.end());
    indexed->file_records_.insert(indexed->file_records_.end(), records.begin(), records.end());
    indexed->record_count_ += source->record_count();
    const v1::SelectionCounts& counts = source->counts();
    indexed->counts_.set_records(indexed->counts_.records() + counts.records());
    indexed->counts_.set_in_part(indexed->counts_.in_part() + counts.in_part());
    indexed->counts_.set_kept(indexed->counts_.kept() + counts.kept());
    indexed->sources_.push_back(std::move(source));
  }
  BULKHEAD_RETURN_IF_ERROR(indexed->MakeOrders(spec));
  return indexed;
}

absl::Status IndexedSpec::MakeOrders(const v1::PipelineSpec& spec) {
  if (!mixture_) {
    counts_.set_samples(record_count_);
    BULKHEAD_ASSIGN_OR_RETURN(order_, MakeOrder(spec.order(), spec.seed(), file_records_));
    return absl::OkStatus();
  }
  const v1::MixtureSource& mixture = spec.source().mixture();
  std::vector<uint64_t> records;
  std::vector<MixedRecords> mixed;
  for (size_t i = 0; i < sources_.size(); ++i) {
    const v1::MixedSource& source = mixture.sources(static_cast<int>(i));
    records.push_back(sources_[i]->record_count());
    mixed.push_back({source.weight(), source.order(), sources_[i]->file_records()});
  }
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t samples, MixtureSamplesPerEpoch(mixture, records));
  counts_.set_samples(samples);
  BULKHEAD_ASSIGN_OR_RETURN(order_, MakeMixtureOrder(mixed, spec.seed(), samples));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::unique_ptr<Source>>> IndexedSpec::Open() const {
  BULKHEAD_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Source>> sources, OpenPlain());
  for (size_t i = 0; mixture_ && i < sources.size(); ++i) {
    sources[i] = MakeNumberedSource(std::move(sources[i]), static_cast<int64_t>(i));
  }
  return sources;
}

absl::StatusOr<std::vector<std::unique_ptr<Source>>> IndexedSpec::OpenPlain() const {
  std::vector<std::unique_ptr<Source>> sources;
  for (const auto& indexed : sources_) {
    BULKHEAD_ASSIGN_OR_RETURN(std::unique_ptr<Source> source, indexed->Open());
    sources.push_back(std::move(source));
  }
  return sources;
}

absl::StatusOr<v1::SelectionCounts> CountRecords(const v1::PipelineSpec& spec,
                                                 const std::string& base_dir) {
  const auto real = RealPath(base_dir);
  BULKHEAD_ASSIGN_OR_RETURN(const auto indexed,
                            IndexedSpec::Create(spec, real.ok() ? *real : base_dir,
                                                [](const std::string&, uint64_t, uint64_t) {}));
  return indexed->counts();
}

}  // namespace bulkhead::tools
