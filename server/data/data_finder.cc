#include "server/data/data_finder.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/sampler/mixture_order.h"
#include "server/spec/selection.h"
#include "server/spec/source_chain.h"

namespace bulkhead {
namespace {

// Limit of rebuilds of a source's damaged indexes.
constexpr int kMostRebuilds = 2;

}  // namespace

absl::StatusOr<FoundData> DataFinder::Find(const v1::PipelineSpec& spec,
                                           const std::string& base_dir,
                                           const FindProgressFn& progress,
                                           const FindCancelledFn& cancelled) const {
  if (spec.source().has_mixture()) return FindMixture(spec, base_dir, progress, cancelled);
  const Part part{spec.source(), spec.features(), SelectionOf(spec, spec.errors())};
  FoundData data;
  BULKHEAD_ASSIGN_OR_RETURN(data.resolved, FindPart(part, base_dir, progress, cancelled));
  data.samples_per_epoch = CountSelected(spec.source(), data.resolved).samples();
  return data;
}

absl::StatusOr<internal::v1::ResolvedSource> DataFinder::FindPart(
    const Part& part, const std::string& base_dir, const FindProgressFn& progress,
    const FindCancelledFn& cancelled) const {
  for (int rebuilt = 0;; ++rebuilt) {
    internal::v1::ResolvedSource resolved;
    const absl::Status found = FindOnce(part, base_dir, resolved, progress, cancelled);
    if (found.ok()) return resolved;
    const auto info = GetErrorInfo(found);
    const bool damaged = info.has_value() && info->reason == reason::kIndexDamaged;
    if (!damaged || rebuilt == kMostRebuilds) return found;
    indexes_->NoteDamage(resolved, found);
  }
}

absl::Status DataFinder::FindOnce(const Part& part, const std::string& base_dir,
                                  internal::v1::ResolvedSource& resolved,
                                  const FindProgressFn& progress,
                                  const FindCancelledFn& cancelled) const {
  BULKHEAD_ASSIGN_OR_RETURN(resolved, ResolveSource(part.source, base_dir, roots_));
  BULKHEAD_RETURN_IF_ERROR(indexes_->EnsureIndexes(part.source, resolved, progress, cancelled));
  BULKHEAD_RETURN_IF_ERROR(
      indexes_->EnsureSelections(part.source, FilterFeatures(part.features, part.selection),
                                 part.selection, resolved, progress, cancelled));
  SetWindow(part.selection, resolved);
  return CheckSelected(part.selection, CountSelected(part.source, resolved));
}

absl::StatusOr<FoundData> DataFinder::FindMixture(const v1::PipelineSpec& spec,
                                                  const std::string& base_dir,
                                                  const FindProgressFn& progress,
                                                  const FindCancelledFn& cancelled) const {
  const v1::MixtureSource& mixture = spec.source().mixture();
  FoundData data;
  uint64_t files_before = 0;
  uint64_t records_before = 0;
  std::vector<uint64_t> samples;
  for (int i = 0; i < mixture.sources_size(); ++i) {
    const auto progress_of_all = [&](const v1::Progress& of_one) {
      v1::Progress report = of_one;
      report.set_files_done(files_before + of_one.files_done());
      report.set_files_total(files_before + of_one.files_total());
      report.set_records(records_before + of_one.records());
      // Nothing is known of the following sources yet.
      if (i + 1 < mixture.sources_size()) report.clear_eta();
      report.set_activity(
          absl::StrCat("source ", i + 1, " of ", mixture.sources_size(), ": ", of_one.activity()));
      progress(report);
    };
    const v1::MixedSource& mixed = mixture.sources(i);
    const Part part{mixed.source(), mixed.features(), SelectionOf(mixed, spec.errors())};
    auto found = FindPart(part, base_dir, progress_of_all, cancelled);
    if (!found.ok()) return Annotate(found.status(), MixedSourcePath(i));
    const v1::SelectionCounts counts = CountSelected(mixed.source(), *found);
    files_before += found->files_size();
    records_before += counts.records();
    samples.push_back(counts.samples());
    *data.resolved.add_mixed() = *std::move(found);
  }
  BULKHEAD_ASSIGN_OR_RETURN(data.samples_per_epoch, MixtureSamplesPerEpoch(mixture, samples));
  return data;
}

}  // namespace bulkhead
