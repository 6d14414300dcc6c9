#include "server/spec/selection.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/spec/canonical.h"
#include "server/spec/image_lists.h"
#include "server/spec/source_signature.h"

namespace bulkhead {
namespace {

using FeatureMap = google::protobuf::Map<std::string, v1::Feature>;

// What a feature is to a filter: its declaration; in lists, the column that holds it.
std::string FeatureText(const v1::Source& source, const FeatureMap& features,
                        const std::string& name) {
  if (const auto found = features.find(DeclarationOf(features, name)); found != features.end()) {
    v1::Feature feature = found->second;
    if (feature.has_int64()) feature.mutable_int64()->clear_classes();
    return CanonicalText(feature);
  }
  const auto& labels = source.image_list().labels();
  const auto label = std::find(labels.begin(), labels.end(), name);
  if (label == labels.end()) return name;
  std::string text = absl::StrCat("label ", label - labels.begin(), " ",
                                  v1::DType_Name(source.image_list().label_dtype()));
  for (const std::string& known : source.image_list().classes()) {
    absl::StrAppend(&text, " ", CanonicalString(known));
  }
  return text;
}

std::string FilterText(const v1::Source& source, const FeatureMap& features,
                       const internal::v1::Selection& selection) {
  std::string text;
  std::set<std::string> names;
  for (const v1::Condition& condition : selection.filter()) {
    absl::StrAppend(&text, "filter=", CanonicalText(condition), "\n");
    names.insert(condition.feature());
  }
  for (const std::string& name : names) {
    absl::StrAppend(&text, "filter on=", CanonicalString(name), " ",
                    FeatureText(source, features, name), "\n");
  }
  return text;
}

std::string ExcludeText(const internal::v1::Selection& selection) {
  std::string text;
  for (const std::string& name : selection.exclude()) {
    absl::StrAppend(&text, "exclude=", CanonicalString(name), "\n");
  }
  return text;
}

std::string SplitText(const internal::v1::Selection& selection) {
  return selection.has_split() ? absl::StrCat("split=", CanonicalText(selection.split()), "\n")
                               : "";
}

std::string FramesText(const internal::v1::Selection& selection) {
  return selection.has_frames() ? absl::StrCat("frames=", CanonicalText(selection.frames()), "\n")
                                : "";
}

// Of how many records that are kept, `skip` and `take` leave how many.
uint64_t Trimmed(uint64_t kept, const internal::v1::ResolvedSource& resolved) {
  const uint64_t left = kept > resolved.skip() ? kept - resolved.skip() : 0;
  return resolved.has_take() ? std::min(left, resolved.take()) : left;
}

uint64_t KeptOf(const internal::v1::ResolvedFile& file) {
  return file.selection_path().empty() ? file.record_count() : file.kept_count();
}

template <typename... Parts>
absl::Status NothingLeft(absl::string_view path, const Parts&... message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kNoSamples,
                   absl::StrCat(path, path.empty() ? "" : ": ", message...),
                   {{"path", std::string(path)}});
}

// `Spec` has filter, split, skip and take: PipelineSpec, MixedSource.
template <typename Spec>
internal::v1::Selection FieldsOf(const Spec& spec, const v1::ErrorPolicy& errors) {
  internal::v1::Selection selection;
  if (const v1::Frames* const frames = FramesOf(spec.source()); frames != nullptr) {
    *selection.mutable_frames() = *frames;
  }
  *selection.mutable_filter() = spec.filter();
  if (spec.has_split()) *selection.mutable_split() = spec.split();
  selection.set_skip(spec.skip());
  if (spec.has_take()) selection.set_take(spec.take());
  selection.set_keep_unreadable(errors.policy() == v1::ERROR_ACTION_SUBSTITUTE ||
                                errors.policy() == v1::ERROR_ACTION_BLANK);
  selection.set_keep_malformed(errors.policy() == v1::ERROR_ACTION_BLANK);
  return selection;
}

}  // namespace

internal::v1::Selection SelectionOf(const v1::PipelineSpec& spec) {
  internal::v1::Selection selection = FieldsOf(spec, spec.errors());
  if (!spec.source().has_mixture()) *selection.mutable_exclude() = spec.exclude();
  return selection;
}

internal::v1::Selection SelectionOf(const v1::PipelineSpec& spec, int source) {
  internal::v1::Selection selection =
      FieldsOf(spec.source().mixture().sources(source), spec.errors());
  const std::string place = absl::StrCat(source, ":");
  for (absl::string_view name : spec.exclude()) {
    if (absl::ConsumePrefix(&name, place)) selection.add_exclude(std::string(name));
  }
  return selection;
}

bool LeavesOutFile(const internal::v1::Selection& selection, absl::string_view name) {
  return std::binary_search(selection.exclude().begin(), selection.exclude().end(), name);
}

bool SelectsRecords(const internal::v1::Selection& selection) {
  return !selection.exclude().empty() || !selection.filter().empty() || selection.has_split() ||
         selection.has_frames();
}

bool IsSelective(const internal::v1::Selection& selection) {
  return SelectsRecords(selection) || selection.skip() > 0 || selection.has_take();
}

FeatureMap FilterFeatures(const FeatureMap& features, const internal::v1::Selection& selection) {
  FeatureMap read;
  for (const v1::Condition& condition : selection.filter()) {
    const auto found = features.find(DeclarationOf(features, condition.feature()));
    if (found != features.end()) read[found->first] = found->second;
  }
  return read;
}

std::string SelectionText(const v1::Source& source, const FeatureMap& features,
                          const internal::v1::Selection& selection) {
  std::string text = absl::StrCat(ExcludeText(selection), FilterText(source, features, selection),
                                  SplitText(selection));
  if (selection.skip() > 0) absl::StrAppend(&text, "skip=", selection.skip(), "\n");
  if (selection.has_take()) absl::StrAppend(&text, "take=", selection.take(), "\n");
  return text;
}

std::string SelectionDigest(const v1::Source& source, const FeatureMap& features,
                            const internal::v1::Selection& selection) {
  Sha256 hash;
  hash.Update(absl::StrCat("bulkhead selection 1\n", ExcludeText(selection),
                           FilterText(source, features, selection), SplitText(selection),
                           FramesText(selection)));
  if (selection.keep_unreadable()) hash.Update("unreadable records are kept\n");
  return hash.FinishHex().substr(0, 32);
}

void SetWindow(const internal::v1::Selection& selection, internal::v1::ResolvedSource& resolved) {
  resolved.set_skip(selection.skip());
  if (selection.has_take()) resolved.set_take(selection.take());
}

v1::SelectionCounts CountSelected(const v1::Source& source,
                                  const internal::v1::ResolvedSource& resolved) {
  v1::SelectionCounts counts;
  uint64_t records = 0;
  uint64_t in_part = 0;
  uint64_t kept = 0;
  for (const internal::v1::ResolvedFile& file : resolved.files()) {
    records += file.record_count();
    in_part += file.selection_path().empty() ? file.record_count() : file.part_count();
    kept += KeptOf(file);
  }
  if (resolved.files().empty()) records = in_part = kept = source.range().size();
  counts.set_records(records);
  counts.set_in_part(in_part);
  counts.set_kept(kept);
  counts.set_samples(Trimmed(kept, resolved));
  return counts;
}

std::string SelectionSummary(const internal::v1::Selection& selection,
                             const v1::SelectionCounts& counts) {
  std::vector<std::string> steps;
  if (selection.has_frames()) {
    steps.push_back(absl::StrCat("windows of ", selection.frames().window(), " begin at ",
                                 counts.in_part(), " of them"));
  }
  if (!selection.exclude().empty() && !selection.has_split()) {
    steps.push_back(absl::StrCat(counts.in_part(), " that `exclude` leaves"));
  }
  if (selection.has_split()) {
    steps.push_back(absl::StrCat(counts.in_part(), " in the part `", selection.split().use(), "`"));
  }
  if (!selection.filter().empty()) {
    steps.push_back(absl::StrCat(counts.kept(), " that the filter keeps"));
  }
  if (selection.skip() > 0) steps.push_back(absl::StrCat(selection.skip(), " skipped"));
  if (selection.has_take()) steps.push_back(absl::StrCat("at most ", selection.take(), " taken"));
  return absl::StrCat(counts.samples(), " of ", counts.records(), " records",
                      steps.empty() ? "" : ": ", absl::StrJoin(steps, ", "));
}

absl::Status CheckSelected(const internal::v1::Selection& selection,
                           const v1::SelectionCounts& counts) {
  if (counts.samples() > 0) return absl::OkStatus();
  if (counts.records() == 0) return NothingLeft("", "the source holds no samples");
  const std::string& part = selection.split().use();
  const bool others = selection.has_split() || !selection.exclude().empty();
  if (counts.in_part() == 0 && selection.has_frames() && !others) {
    return NothingLeft("source", "no folder has ", selection.frames().window(),
                       " images in a row, which make a window of `frames`");
  }
  if (counts.in_part() == 0 && !selection.has_split()) {
    return NothingLeft("exclude", "leaves out all ", counts.records(), " records");
  }
  if (counts.in_part() == 0) {
    return NothingLeft("split", "the part `", part, "` has 0 of ", counts.records(),
                       " records; give it a larger share, or take another salt");
  }
  if (counts.kept() == 0) {
    return NothingLeft("filter", "the filter keeps 0 of ", counts.in_part(), " records",
                       selection.has_split() ? absl::StrCat(" of the part `", part, "`") : "");
  }
  return NothingLeft("skip", "leaves out ", selection.skip(), " records, and there are ",
                     counts.kept(),
                     SelectsRecords(selection)
                         ? absl::StrCat(" (of ", counts.records(), ") that filter and split keep")
                         : "");
}

std::vector<uint64_t> SelectedFileRecords(const v1::Source& source,
                                          const internal::v1::ResolvedSource& resolved) {
  std::vector<uint64_t> records;
  for (const internal::v1::ResolvedFile& file : resolved.files()) records.push_back(KeptOf(file));
  if (records.empty()) records.push_back(source.range().size());
  uint64_t skip = resolved.skip();
  for (uint64_t& count : records) {
    const uint64_t skipped = std::min(skip, count);
    skip -= skipped;
    count -= skipped;
  }
  if (!resolved.has_take()) return records;
  uint64_t take = resolved.take();
  for (uint64_t& count : records) {
    count = std::min(count, take);
    take -= count;
  }
  return records;
}

}  // namespace bulkhead
