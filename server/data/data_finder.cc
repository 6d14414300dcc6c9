#include "server/data/data_finder.h"

#include <iterator>
#include <utility>
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

// Leaves the class names in `data` that source `number` of a mixture has as well. LIST_INVALID when
// the names of a list's labels are numbered otherwise than in the sources before it.
absl::Status AgreeOnClasses(const v1::Source& source, int number, ClassNames& names,
                            FoundData& data) {
  if (number == 0) {
    data.class_names = std::move(names);
    return absl::OkStatus();
  }
  for (auto known = data.class_names.begin(); known != data.class_names.end();) {
    const auto found = names.find(known->first);
    const bool agree = found != names.end() && found->second == known->second;
    if (!agree && found != names.end() && source.has_image_list()) {
      return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid,
                       absl::StrCat(MixedSourcePath(number), ": the classes of `", known->first,
                                    "` are not those of the sources before it, so that their "
                                    "numbers would differ; give `classes` to all of them"));
    }
    known = agree ? std::next(known) : data.class_names.erase(known);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FoundData> DataFinder::Find(const v1::PipelineSpec& spec,
                                           const std::string& base_dir,
                                           const FindProgressFn& progress,
                                           const FindCancelledFn& cancelled) const {
  if (spec.source().has_mixture()) return FindMixture(spec, base_dir, progress, cancelled);
  const Part part{spec.source(), spec.features(), SelectionOf(spec, spec.errors())};
  BULKHEAD_ASSIGN_OR_RETURN(FoundData data, FindPart(part, base_dir, progress, cancelled));
  data.samples_per_epoch = CountSelected(spec.source(), data.resolved).samples();
  return data;
}

absl::StatusOr<FoundData> DataFinder::FindPart(const Part& part, const std::string& base_dir,
                                               const FindProgressFn& progress,
                                               const FindCancelledFn& cancelled) const {
  for (int rebuilt = 0;; ++rebuilt) {
    FoundData found;
    const absl::Status status = FindOnce(part, base_dir, found, progress, cancelled);
    if (status.ok()) return found;
    const auto info = GetErrorInfo(status);
    const bool damaged = info.has_value() && info->reason == reason::kIndexDamaged;
    if (!damaged || rebuilt == kMostRebuilds) return status;
    indexes_->NoteDamage(found.resolved, status);
  }
}

absl::Status DataFinder::FindOnce(const Part& part, const std::string& base_dir, FoundData& found,
                                  const FindProgressFn& progress,
                                  const FindCancelledFn& cancelled) const {
  internal::v1::ResolvedSource& resolved = found.resolved;
  BULKHEAD_ASSIGN_OR_RETURN(resolved, ResolveSource(part.source, base_dir, roots_));
  BULKHEAD_RETURN_IF_ERROR(indexes_->EnsureIndexes(part.source, part.selection.keep_unreadable(),
                                                   resolved, progress, cancelled));
  BULKHEAD_ASSIGN_OR_RETURN(found.class_names, indexes_->NamesOf(resolved));
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
    const v1::SelectionCounts counts = CountSelected(mixed.source(), found->resolved);
    files_before += found->resolved.files_size();
    records_before += counts.records();
    samples.push_back(counts.samples());
    BULKHEAD_RETURN_IF_ERROR(AgreeOnClasses(mixed.source(), i, found->class_names, data));
    *data.resolved.add_mixed() = std::move(found->resolved);
  }
  BULKHEAD_ASSIGN_OR_RETURN(data.samples_per_epoch, MixtureSamplesPerEpoch(mixture, samples));
  return data;
}

}  // namespace bulkhead
