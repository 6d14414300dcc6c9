#include "server/data/data_finder.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/sampler/mixture_order.h"
#include "server/spec/record_files.h"
#include "server/spec/selection.h"
#include "server/spec/source_chain.h"

namespace bulkhead {
namespace {

// Limit of rebuilds of a source's damaged indexes.
constexpr int kMostRebuilds = 2;

// Finds out which class names the sources of a mixture have in common.
class CommonClasses {
 public:
  // LIST_INVALID when source `number` numbers names otherwise than one before it. Two folders may:
  // their labels are numbers to begin with.
  absl::Status Add(const v1::Source& source, int number, const ClassNames& names) {
    for (const auto& [feature, classes] : names) {
      Known& known = known_.try_emplace(feature, Known{classes, 0, false}).first->second;
      const bool of_list = source.has_image_list();
      if (known.classes != classes && (of_list || known.of_list)) {
        return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid,
                         absl::StrCat(MixedSourcePath(number), ": the classes of `", feature,
                                      "` are not those of the sources before it, so that their "
                                      "numbers would differ; give `classes` to all of them"));
      }
      known.sources += known.classes == classes ? 1 : 0;
      known.of_list |= of_list;
    }
    return absl::OkStatus();
  }

  // Those that all of `count` sources have.
  ClassNames Take(int count) {
    ClassNames common;
    for (auto& [feature, known] : known_) {
      if (known.sources == count) common[feature] = std::move(known.classes);
    }
    return common;
  }

 private:
  struct Known {
    std::vector<std::string> classes;  // of the first source that has any
    int sources = 0;                   // that have these
    bool of_list = false;              // one of the sources that have any is a list
  };
  std::map<std::string, Known> known_;  // by feature
};

// Takes the files of records out that are excluded as a whole. NO_SAMPLES when none is left.
absl::Status LeaveOutFiles(const v1::Source& source, const internal::v1::Selection& selection,
                           internal::v1::ResolvedSource& resolved) {
  if (!HasRecordFiles(source) || selection.exclude().empty()) return absl::OkStatus();
  auto& files = *resolved.mutable_files();
  files.erase(std::remove_if(files.begin(), files.end(),
                             [&](const internal::v1::ResolvedFile& file) {
                               return LeavesOutFile(selection, CanonicalRecordName(file.name()));
                             }),
              files.end());
  if (!files.empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kNoSamples,
                   "exclude: leaves out every file of the source", {{"path", "exclude"}});
}

// `status` of source `number` of a mixture, with what it says of the spec told from the spec's
// root.
absl::Status OfMixedSource(const absl::Status& status, int number) {
  const std::string source = MixedSourcePath(number);
  std::optional<ErrorInfo> info = GetErrorInfo(status);
  if (!info.has_value() || info->metadata.count("path") == 0) return Annotate(status, source);
  std::string& path = info->metadata["path"];
  path = absl::StrCat(source, ".", path);
  return MakeError(status.code(), info->reason, absl::StrCat(path, ": ", status.message()),
                   info->metadata);
}

// Those that the spec names, as records hold numbers only.
ClassNames ClassesOf(const FeatureMap& features) {
  ClassNames names;
  for (const auto& [name, feature] : features) {
    const auto& classes = feature.int64().classes();
    if (!classes.empty()) names[name] = {classes.begin(), classes.end()};
  }
  return names;
}

}  // namespace

void NameClasses(const FoundData& data, v1::PipelineSpec& spec) {
  auto names = data.classes_of_files.begin();
  // All labels of a source have the same classes.
  const auto fill = [&](auto& files) {
    if (files.classes_file().empty() || names == data.classes_of_files.end()) return;
    const ClassNames& of_source = *names++;
    if (of_source.empty()) return;
    const std::vector<std::string>& classes = of_source.begin()->second;
    *files.mutable_classes() = {classes.begin(), classes.end()};
    files.clear_classes_file();
  };
  const auto fill_source = [&](v1::Source& source) {
    if (source.has_image_list()) fill(*source.mutable_image_list());
    if (source.has_image_folder()) fill(*source.mutable_image_folder());
  };
  if (!spec.source().has_mixture()) return fill_source(*spec.mutable_source());
  for (v1::MixedSource& mixed : *spec.mutable_source()->mutable_mixture()->mutable_sources()) {
    fill_source(*mixed.mutable_source());
  }
}

absl::StatusOr<FoundData> DataFinder::Find(const v1::PipelineSpec& spec,
                                           const std::string& base_dir,
                                           const FindCaller& caller) const {
  if (spec.source().has_mixture()) return FindMixture(spec, base_dir, caller);
  BULKHEAD_ASSIGN_OR_RETURN(FoundData data, FindPart({spec.source(), spec.features(),
                                                      SelectionOf(spec), base_dir, caller}));
  data.samples_per_epoch = CountSelected(spec.source(), data.resolved).samples();
  return data;
}

absl::StatusOr<FoundData> DataFinder::FindPart(const Part& part) const {
  for (int rebuilt = 0;; ++rebuilt) {
    FoundData found;
    const absl::Status status = FindOnce(part, found);
    if (status.ok()) return found;
    const auto info = GetErrorInfo(status);
    const bool damaged = info.has_value() && info->reason == reason::kIndexDamaged;
    if (!damaged || rebuilt == kMostRebuilds) return status;
    indexes_->NoteDamage(found.resolved, status);
  }
}

absl::Status DataFinder::FindOnce(const Part& part, FoundData& found) const {
  internal::v1::ResolvedSource& resolved = found.resolved;
  FindObjectsFn find_objects;
  if (objects_ != nullptr) {
    find_objects = [&](const std::string& pattern) {
      return objects_->Find(pattern, part.caller.cancelled);
    };
  }
  BULKHEAD_ASSIGN_OR_RETURN(resolved,
                            ResolveSource(part.source, part.base_dir, roots_, find_objects));
  BULKHEAD_RETURN_IF_ERROR(LeaveOutFiles(part.source, part.selection, resolved));
  BULKHEAD_RETURN_IF_ERROR(
      indexes_->EnsureIndexes(part.source, part.selection, resolved, part.caller));
  BULKHEAD_ASSIGN_OR_RETURN(found.class_names, indexes_->NamesOf(resolved));
  if (HasRecordFiles(part.source)) found.class_names = ClassesOf(part.features);
  if (resolved.has_classes()) found.classes_of_files.push_back(found.class_names);
  resolved.clear_classes();
  BULKHEAD_RETURN_IF_ERROR(indexes_->EnsureSelections(part.source,
                                                      FilterFeatures(part.features, part.selection),
                                                      part.selection, resolved, part.caller));
  SetWindow(part.selection, resolved);
  return CheckSelected(part.selection, CountSelected(part.source, resolved));
}

absl::StatusOr<FoundData> DataFinder::FindMixture(const v1::PipelineSpec& spec,
                                                  const std::string& base_dir,
                                                  const FindCaller& caller) const {
  const v1::MixtureSource& mixture = spec.source().mixture();
  FoundData data;
  uint64_t files_before = 0;
  uint64_t records_before = 0;
  std::vector<uint64_t> samples;
  CommonClasses classes;
  for (int i = 0; i < mixture.sources_size(); ++i) {
    const auto report = [&](const v1::Progress& of_one) {
      v1::Progress all = of_one;
      all.set_files_done(files_before + of_one.files_done());
      all.set_files_total(files_before + of_one.files_total());
      all.set_records(records_before + of_one.records());
      // Nothing is known of the following sources yet.
      if (i + 1 < mixture.sources_size()) all.clear_eta();
      all.set_activity(
          absl::StrCat("source ", i + 1, " of ", mixture.sources_size(), ": ", of_one.activity()));
      caller.progress(all);
    };
    const v1::MixedSource& mixed = mixture.sources(i);
    auto found = FindPart({mixed.source(),
                           mixed.features(),
                           SelectionOf(spec, i),
                           base_dir,
                           {report, caller.cancelled}});
    if (!found.ok()) return OfMixedSource(found.status(), i);
    const v1::SelectionCounts counts = CountSelected(mixed.source(), found->resolved);
    files_before += found->resolved.files_size();
    records_before += counts.records();
    samples.push_back(counts.samples());
    BULKHEAD_RETURN_IF_ERROR(classes.Add(mixed.source(), i, found->class_names));
    std::move(found->classes_of_files.begin(), found->classes_of_files.end(),
              std::back_inserter(data.classes_of_files));
    *data.resolved.add_mixed() = std::move(found->resolved);
  }
  data.class_names = classes.Take(mixture.sources_size());
  BULKHEAD_ASSIGN_OR_RETURN(data.samples_per_epoch, MixtureSamplesPerEpoch(mixture, samples));
  return data;
}

}  // namespace bulkhead
