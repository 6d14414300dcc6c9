#include "tools/local/local_data.h"

#include <fcntl.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/files/fd.h"
#include "server/sampler/mixture_order.h"
#include "server/source/index/index_builder.h"
#include "server/source/numbered_source.h"
#include "server/spec/selection.h"
#include "tools/local/local_objects.h"

namespace bulkhead::tools {
namespace {

// A BuildIndexesFn: builds the indexes here, in `folder`, under names that nobody looks for, which
// `built_paths` gains.
absl::Status BuildHere(const IndexKind& kind, const std::vector<size_t>& missing,
                       IndexFolder& folder, internal::v1::ResolvedSource& resolved,
                       const FindProgressFn& progress, std::set<std::string>& built_paths) {
  for (size_t i = 0; i < missing.size(); ++i) {
    internal::v1::ResolvedFile& file = *resolved.mutable_files(static_cast<int>(missing[i]));
    v1::Progress report;
    report.set_files_done(i);
    report.set_files_total(missing.size());
    report.set_activity(absl::StrCat(kind.activity, " ", file.name()));
    progress(report);
    std::string path = folder.path() + "/XXXXXX";
    const UniqueFd fd(mkostemp(path.data(), O_CLOEXEC));
    if (!fd) return Unwritable(path, errno);
    internal::v1::BuildIndex request = kind.request(file);
    request.set_base_dir(resolved.base_dir());
    *request.mutable_roots() = resolved.roots();
    const auto built = BuildIndex(request, fd.get(), [](uint64_t, uint64_t) {});
    if (!built.ok()) return built.status();
    BULKHEAD_ASSIGN_OR_RETURN(const IndexHeader header, CheckIndex(fd.get(), kind));
    kind.adopt(header, path, file);
    built_paths.insert(path);
  }
  return absl::OkStatus();
}

// Whether a source has a list, whose lines may be URLs.
bool MayListUrls(const v1::PipelineSpec& spec) {
  const auto& mixed = spec.source().mixture().sources();
  return spec.source().has_image_list() ||
         std::any_of(mixed.begin(), mixed.end(),
                     [](const v1::MixedSource& one) { return one.source().has_image_list(); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalData>> LocalData::Create(const v1::PipelineSpec& spec,
                                                             const std::string& base_dir,
                                                             const FindProgressFn& progress) {
  std::unique_ptr<LocalData> local(new LocalData(spec));
  BULKHEAD_ASSIGN_OR_RETURN(local->folder_, TemporaryFolder::Make("index"));
  const bool names_urls = !UrlsOf(spec).empty();
  if (names_urls || MayListUrls(spec)) {
    auto objects = MakeLocalObjects();
    if (!objects.ok() && names_urls) return objects.status();
    if (objects.ok()) local->objects_ = *std::move(objects);
  }
  IndexStore indexes(
      {local->folder_.path(), /*most_bytes=*/0, /*most_open=*/0},
      [&](const IndexKind& kind, const std::vector<size_t>& missing, IndexFolder& folder,
          internal::v1::ResolvedSource& resolved, const FindCaller& caller) {
        return BuildHere(kind, missing, folder, resolved, caller.progress, local->built_);
      },
      local->objects_.get());
  const DataFinder finder({{}, /*unrestricted=*/true}, &indexes, local->objects_.get());
  BULKHEAD_ASSIGN_OR_RETURN(local->data_,
                            finder.Find(spec, base_dir, {progress, [] { return false; }}));
  local->found_objects_ =
      std::make_shared<const FoundObjects>(local->objects_.get(), local->data_.resolved);
  if (local->found_objects_->empty()) local->found_objects_.reset();
  BULKHEAD_RETURN_IF_ERROR(local->MakeOrders());
  return local;
}

absl::StatusOr<std::unique_ptr<LocalData>> LocalData::OfFound(
    const v1::PipelineSpec& spec, internal::v1::ResolvedSource resolved) {
  std::unique_ptr<LocalData> local(new LocalData(spec));
  local->data_.resolved = std::move(resolved);
  BULKHEAD_RETURN_IF_ERROR(local->MakeOrders());
  return local;
}

absl::Status LocalData::MakeOrders() {
  std::vector<MixedRecords> mixed;
  std::vector<uint64_t> samples;  // of each source
  const v1::MixtureSource& mixture = spec_.source().mixture();
  const auto add = [&](const v1::Source& source, const internal::v1::ResolvedSource& resolved) {
    for (const auto& file : resolved.files()) file_names_.push_back(file.name());
    if (resolved.files().empty()) file_names_.push_back("range");
    const std::vector<uint64_t> records = SelectedFileRecords(source, resolved);
    file_records_.insert(file_records_.end(), records.begin(), records.end());
    const v1::SelectionCounts counts = CountSelected(source, resolved);
    record_count_ += counts.samples();
    samples.push_back(counts.samples());
    counts_.set_records(counts_.records() + counts.records());
    counts_.set_in_part(counts_.in_part() + counts.in_part());
    counts_.set_kept(counts_.kept() + counts.kept());
    return records;
  };
  if (!spec_.source().has_mixture()) {
    add(spec_.source(), data_.resolved);
    counts_.set_samples(record_count_);
    BULKHEAD_ASSIGN_OR_RETURN(order_, MakeOrder(spec_.order(), spec_.seed(), file_records_));
    return absl::OkStatus();
  }
  for (int i = 0; i < mixture.sources_size(); ++i) {
    const v1::MixedSource& source = mixture.sources(i);
    mixed.push_back(
        {source.weight(), source.order(), add(source.source(), data_.resolved.mixed(i))});
  }
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t epoch, MixtureSamplesPerEpoch(mixture, samples));
  counts_.set_samples(epoch);
  BULKHEAD_ASSIGN_OR_RETURN(order_, MakeMixtureOrder(mixed, spec_.seed(), epoch));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::unique_ptr<Source>>> LocalData::Open() const {
  BULKHEAD_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Source>> sources, OpenPlain());
  for (size_t i = 0; spec_.source().has_mixture() && i < sources.size(); ++i) {
    sources[i] = MakeNumberedSource(std::move(sources[i]), static_cast<int64_t>(i));
  }
  return sources;
}

absl::StatusOr<std::vector<std::unique_ptr<Source>>> LocalData::OpenPlain() const {
  std::vector<std::unique_ptr<Source>> sources;
  if (!spec_.source().has_mixture()) {
    BULKHEAD_ASSIGN_OR_RETURN(sources.emplace_back(),
                              OpenSource(spec_.source(), spec_.features(), data_.resolved));
    return sources;
  }
  for (int i = 0; i < data_.resolved.mixed_size(); ++i) {
    const v1::MixedSource& mixed = spec_.source().mixture().sources(i);
    BULKHEAD_ASSIGN_OR_RETURN(sources.emplace_back(), OpenSource(mixed.source(), mixed.features(),
                                                                 data_.resolved.mixed(i)));
  }
  return sources;
}

v1::PipelineSpec LocalData::NamedSpec() const {
  v1::PipelineSpec named = spec_;
  NameClasses(data_, named);
  return named;
}

}  // namespace bulkhead::tools
