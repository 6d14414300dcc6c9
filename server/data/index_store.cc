#include "server/data/index_store.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/arena/index_paths.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/index_header.h"
#include "server/base/paths/object_url.h"
#include "server/data/published_index.h"
#include "server/data/published_indexes.h"
#include "server/os/event_loop.h"
#include "server/os/files/filesystem.h"
#include "server/spec/record_files.h"
#include "server/spec/selection.h"

namespace bulkhead {
namespace {

// A larger object is no file of classes, and is not fetched.
constexpr uint64_t kMostClassesBytes = 4 * kMaxClassNamesBytes;
constexpr int64_t kTellNs = 1'000'000'000;

// How the object is to be fetched once more for an index that could not be built; absent: it would
// not help.
std::optional<ObjectFetcher::Trust> TrustAfter(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  if (!info.has_value()) return std::nullopt;
  if (info->reason == reason::kNotFetched && info->metadata.count("urls") == 0) {
    return internal::v1::FetchParts::TRUST_CHECKSUMS;
  }
  const bool is_wrong =
      info->reason == reason::kCorruptRecord || info->reason == reason::kTruncatedRecord;
  if (is_wrong) return internal::v1::FetchParts::TRUST_NOTHING;
  return std::nullopt;
}

// What a list or names of classes say may be wrong because their bytes arrived wrong: these have no
// checksum.
bool MayHaveArrivedWrong(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsDataLoss(status);
}

// A list names objects, and there is no table of them.
bool WantsTable(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  return info.has_value() && info->reason == reason::kNotFetched && info->metadata.count("urls");
}

// Copies an index header's facts to the file.
void AdoptIndex(const IndexHeader& header, const std::string& path,
                internal::v1::ResolvedFile& file) {
  file.set_index_path(path);
  file.set_record_count(header.record_count);
  file.set_checksum(header.checksum.data(), header.checksum.size());
}

// Copies a selection header's facts to the file.
void AdoptSelection(const IndexHeader& header, const std::string& path,
                    internal::v1::ResolvedFile& file) {
  file.set_selection_path(path);
  file.set_part_count(header.part_count);
  file.set_kept_count(header.record_count);
}

// Whether the selection's header fits this file's index.
bool BelongsTo(const IndexHeader& header, const internal::v1::ResolvedFile& file) {
  const absl::string_view checksum(reinterpret_cast<const char*>(header.checksum.data()),
                                   header.checksum.size());
  return header.file_size_bytes == file.size_bytes() && header.file_mtime_ns == file.mtime_ns() &&
         header.indexed_count == file.record_count() &&
         (file.checksum().empty() || checksum == file.checksum()) &&
         header.record_count <= header.part_count && header.part_count <= header.indexed_count;
}

absl::StatusOr<ClassNames> ReadClassNames(const std::string& index_path) {
  BULKHEAD_ASSIGN_OR_RETURN(const UniqueFd file, OpenOwnFile(index_path, /*writable=*/false));
  BULKHEAD_ASSIGN_OR_RETURN(const std::string prefix, ReadPrefix(file.get(), IndexHeader::kBytes));
  BULKHEAD_ASSIGN_OR_RETURN(const IndexHeader header, IndexHeader::Parse(prefix));
  if (header.names_bytes == 0) return ClassNames();
  // The length of a name takes four bytes, and each counts as its bytes and one.
  const uint64_t most = std::min<uint64_t>(header.names_bytes, 5 * kMaxClassNamesBytes);
  BULKHEAD_ASSIGN_OR_RETURN(const std::string bytes,
                            ReadPrefix(file.get(), IndexHeader::kBytes + most));
  return ParseClassNames(absl::string_view(bytes).substr(IndexHeader::kBytes));
}

}  // namespace

IndexStore::IndexStore(IndexFolder::Config folder, BuildIndexesFn build, ObjectFetcher* objects)
    : folder_(std::move(folder)), build_(std::move(build)), objects_(objects) {}

std::string IndexStore::CachedPath(const v1::Source& source,
                                   const internal::v1::ResolvedFile& file) const {
  const v1::Compression compression = RecordFilesOf(source).compression;
  Sha256 hash;
  hash.Update(absl::StrCat("bulkhead index ", IndexHeader::kVersion, "\n", source.source_case(),
                           "\n", file.path(), "\n", file.size_bytes(), "\n", file.mtime_ns(), "\n",
                           compression, "\n"));
  return absl::StrCat(folder_.path(), "/", hash.FinishHex().substr(0, 32), ".index");
}

absl::Status IndexStore::EnsureIndexes(const v1::Source& source,
                                       const internal::v1::Selection& selection,
                                       internal::v1::ResolvedSource& resolved,
                                       const FindProgressFn& progress,
                                       const FindCancelledFn& cancelled) {
  if (source.has_range()) return absl::OkStatus();
  if (resolved.files().empty()) resolved.add_files()->set_name("entries");  // an inline list
  if (resolved.classes().has_object() && resolved.classes().size_bytes() > kMostClassesBytes) {
    return InvalidClassesFile(resolved.classes().name(), 1,
                              absl::StrCat("begins a file of ", resolved.classes().size_bytes(),
                                           " bytes; names of classes have at most 1 MiB"));
  }

  const bool cacheable = HasRecordFiles(source);
  std::vector<size_t> missing;
  for (int i = 0; i < resolved.files_size(); ++i) {
    internal::v1::ResolvedFile& file = *resolved.mutable_files(i);
    if (cacheable) {
      const std::string path = CachedPath(source, file);
      const std::optional<IndexHeader> header = folder_.Find(path);
      if (header.has_value() && header->file_size_bytes == file.size_bytes() &&
          header->file_mtime_ns == file.mtime_ns()) {
        AdoptIndex(*header, path, file);
        continue;
      }
    }
    missing.push_back(static_cast<size_t>(i));
  }
  IndexKind kind;
  kind.activity = "indexing";
  kind.header_kind = static_cast<uint32_t>(source.source_case());
  kind.request = [&](const internal::v1::ResolvedFile& file) {
    internal::v1::BuildIndex request;
    *request.mutable_source() = source;
    *request.mutable_file() = file;
    // One that is excluded may be missing; what is not will be missed by its sample.
    request.set_keep_missing(selection.keep_unreadable() || !selection.exclude().empty());
    request.set_keep_malformed(selection.keep_malformed());
    if (resolved.has_classes()) *request.mutable_classes() = resolved.classes();
    return request;
  };
  kind.path = [&](const internal::v1::ResolvedFile& file, const IndexHeader& header) {
    if (cacheable) return CachedPath(source, file);
    const absl::string_view checksum(reinterpret_cast<const char*>(header.checksum.data()),
                                     header.checksum.size());
    return absl::StrCat(folder_.path(), "/list-", absl::BytesToHexString(checksum).substr(0, 32),
                        "-", header.table_crc32c, ".index");
  };
  kind.adopt = AdoptIndex;
  kind.belongs = [](const IndexHeader&, const auto&) { return true; };
  if (cacheable) kind.claim = [&](const auto& file) { return ClaimOf(source, file); };
  kind.is_done = [](const auto& file) { return !file.index_path().empty(); };
  if (source.has_image_folder() && IsObjectUrl(source.image_folder().path())) {
    BULKHEAD_RETURN_IF_ERROR(ListFolder(resolved, progress, cancelled));
  }
  const auto build = [&] { return BuildNamed(kind, missing, resolved, progress, cancelled); };
  const absl::Status built = build();
  if (cacheable || !MayHaveArrivedWrong(built)) return built;
  // Lists and names of classes are read from the store once more, past the cache.
  std::vector<std::unique_ptr<ObjectFetcher::WholeFetch>> again;
  for (const internal::v1::ResolvedFile* text : {&resolved.files(0), &resolved.classes()}) {
    if (!text->has_object()) continue;
    again.push_back(std::make_unique<ObjectFetcher::WholeFetch>(
        *objects_, *text, internal::v1::FetchParts::TRUST_NOTHING));
    BULKHEAD_RETURN_IF_ERROR(AwaitFetch(*again.back(), *text, progress, cancelled));
  }
  if (again.empty()) return built;
  if (source.has_image_list()) resolved.mutable_files(0)->clear_table();
  return build();
}

absl::Status IndexStore::BuildNamed(const IndexKind& kind, const std::vector<size_t>& missing,
                                    internal::v1::ResolvedSource& resolved,
                                    const FindProgressFn& progress,
                                    const FindCancelledFn& cancelled) {
  const auto build = [&]() -> absl::Status {
    const absl::Status built = Build(kind, missing, resolved, progress, cancelled);
    if (!WantsTable(built)) return built;
    BULKHEAD_RETURN_IF_ERROR(ListUrls(kind, resolved, progress, cancelled));
    return Build(kind, missing, resolved, progress, cancelled);
  };
  if (!resolved.classes().has_object()) return build();
  absl::Status built;
  for (ObjectFetcher::Trust trust :
       {internal::v1::FetchParts::TRUST_UNSPECIFIED, internal::v1::FetchParts::TRUST_CHECKSUMS}) {
    ObjectFetcher::WholeFetch classes(*objects_, resolved.classes(), trust);
    BULKHEAD_RETURN_IF_ERROR(AwaitFetch(classes, resolved.classes(), progress, cancelled));
    built = build();
    if (TrustAfter(built) != internal::v1::FetchParts::TRUST_CHECKSUMS) break;
  }
  return built;
}

absl::Status IndexStore::AwaitFetch(ObjectFetcher::WholeFetch& fetch,
                                    const internal::v1::ResolvedFile& file,
                                    const FindProgressFn& progress,
                                    const FindCancelledFn& cancelled) {
  v1::Progress fetching;
  fetching.set_activity(absl::StrCat("fetching ", ShownUrl(file.object().url())));
  int64_t told_ns = 0;
  return fetch.Wait([&] {
    if (MonotonicNanos() - told_ns >= kTellNs) {
      progress(fetching);
      told_ns = MonotonicNanos();
    }
    return cancelled();
  });
}

absl::Status IndexStore::ListFolder(internal::v1::ResolvedSource& resolved,
                                    const FindProgressFn& progress,
                                    const FindCancelledFn& cancelled) {
  internal::v1::ResolvedFile& folder = *resolved.mutable_files(0);
  internal::v1::ListObjects list;
  list.set_folder(folder.path());
  return List(std::move(list), nullptr, absl::StrCat("listing ", ShownUrl(folder.path())), folder,
              progress, cancelled);
}

absl::Status IndexStore::ListUrls(const IndexKind& indexing, internal::v1::ResolvedSource& resolved,
                                  const FindProgressFn& progress,
                                  const FindCancelledFn& cancelled) {
  internal::v1::ResolvedFile& file = *resolved.mutable_files(0);
  if (objects_ == nullptr) {
    return MakeError(absl::StatusCode::kPermissionDenied, reason::kPathNotAllowed,
                     absl::StrCat(file.name(),
                                  ": names objects of a store by their URLs, and this command "
                                  "reads the data in its own process, and only files there; use "
                                  "`bulkhead stream`, whose service reads object stores"),
                     {{"file", file.name()}});
  }
  std::optional<absl::StatusOr<UniqueFd>> found;
  IndexKind urls = indexing;
  urls.activity = "looking for the objects in";
  urls.header_kind = indexing.header_kind + IndexHeader::kUrls;
  urls.request = [&](const internal::v1::ResolvedFile& list) {
    internal::v1::BuildIndex request = indexing.request(list);
    request.set_urls_only(true);
    return request;
  };
  // At once, since a full folder keeps only what a source needs.
  urls.adopt = [&](const IndexHeader&, const std::string& built, const auto&) {
    found = OpenOwnFile(built, /*writable=*/false);
  };
  urls.is_done = [&](const auto&) { return found.has_value(); };
  BULKHEAD_RETURN_IF_ERROR(Build(urls, {0}, resolved, progress, cancelled));
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd fd, *std::move(found));
  internal::v1::ListObjects list;
  *list.mutable_roots() = resolved.roots();
  return Annotate(
      List(std::move(list), std::make_shared<const UniqueFd>(std::move(fd)),
           absl::StrCat("looking up the objects of ", file.name()), file, progress, cancelled),
      file.name());
}

absl::Status IndexStore::List(internal::v1::ListObjects list, SharedFd urls,
                              const std::string& what, internal::v1::ResolvedFile& file,
                              const FindProgressFn& progress, const FindCancelledFn& cancelled) {
  int64_t told_ns = 0;
  const auto tell = [&](uint64_t objects) {
    if (MonotonicNanos() - told_ns < kTellNs) return;
    told_ns = MonotonicNanos();
    v1::Progress report;
    report.set_activity(what);
    report.set_files_total(1);
    report.set_records(objects);
    progress(report);
  };
  BULKHEAD_ASSIGN_OR_RETURN(*file.mutable_table(),
                            objects_->List(std::move(list), std::move(urls), tell, cancelled));
  return absl::OkStatus();
}

absl::StatusOr<ClassNames> IndexStore::NamesOf(const internal::v1::ResolvedSource& resolved) const {
  const bool has_index = resolved.files_size() == 1 && !resolved.files(0).index_path().empty();
  if (!has_index) return ClassNames();
  absl::StatusOr<ClassNames> names = ReadClassNames(resolved.files(0).index_path());
  if (names.ok()) return names;
  return MakeError(absl::StatusCode::kDataLoss, reason::kIndexDamaged, names.status().message(),
                   {{"file", resolved.files(0).name()}});
}

absl::Status IndexStore::EnsureSelections(
    const v1::Source& source, const google::protobuf::Map<std::string, v1::Feature>& features,
    const internal::v1::Selection& selection, internal::v1::ResolvedSource& resolved,
    const FindProgressFn& progress, const FindCancelledFn& cancelled) {
  if (!SelectsRecords(selection)) return absl::OkStatus();
  if (source.has_range()) {
    internal::v1::ResolvedFile& file = *resolved.add_files();
    file.set_name("range");
    file.set_record_count(source.range().size());
  }
  const std::string digest = SelectionDigest(source, features, selection);
  IndexKind kind;
  kind.activity = "selecting from";
  kind.reads_data = !selection.filter().empty();
  kind.header_kind = static_cast<uint32_t>(source.source_case()) + IndexHeader::kSelection;
  kind.request = [&](const internal::v1::ResolvedFile& file) {
    internal::v1::BuildIndex request;
    *request.mutable_source() = source;
    *request.mutable_file() = file;
    *request.mutable_selection() = selection;
    *request.mutable_features() = features;
    return request;
  };
  kind.path = [&](const internal::v1::ResolvedFile& file, const IndexHeader&) {
    Sha256 hash;
    hash.Update(absl::StrCat("bulkhead selection ", IndexHeader::kVersion, "\n", digest, "\n",
                             file.index_path(), "\n", file.name(), "\n", file.record_count(), "\n",
                             absl::BytesToHexString(file.checksum()), "\n"));
    return absl::StrCat(folder_.path(), "/", hash.FinishHex().substr(0, 32), ".selection");
  };
  kind.adopt = AdoptSelection;
  kind.belongs = BelongsTo;
  kind.is_done = [](const auto& file) { return !file.selection_path().empty(); };
  std::vector<size_t> missing;
  for (int i = 0; i < resolved.files_size(); ++i) {
    internal::v1::ResolvedFile& file = *resolved.mutable_files(i);
    const std::string path = kind.path(file, IndexHeader());
    const std::optional<IndexHeader> header = folder_.Find(path);
    if (header.has_value() && header->kind == kind.header_kind && BelongsTo(*header, file)) {
      AdoptSelection(*header, path, file);
    } else {
      missing.push_back(static_cast<size_t>(i));
    }
  }
  return Build(kind, missing, resolved, progress, cancelled);
}

absl::Status IndexStore::Build(const IndexKind& kind, const std::vector<size_t>& missing,
                               internal::v1::ResolvedSource& resolved,
                               const FindProgressFn& progress, const FindCancelledFn& cancelled) {
  if (missing.empty()) return absl::OkStatus();
  std::vector<size_t> files;
  std::vector<size_t> objects;
  for (const size_t i : missing) {
    const bool fetched = kind.reads_data && resolved.files(static_cast<int>(i)).has_object();
    (fetched ? objects : files).push_back(i);
  }
  if (!files.empty()) {
    BULKHEAD_RETURN_IF_ERROR(build_(kind, files, folder_, resolved, progress, cancelled));
  }
  if (kind.claim != nullptr && !objects.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(
        objects,
        PublishedIndexes(*objects_, folder_).Adopt(kind, objects, resolved, progress, cancelled));
  }
  BULKHEAD_RETURN_IF_ERROR(BuildOfObjects(kind, objects, resolved, progress, cancelled));
  std::set<std::string> needed;
  for (const std::string* path : IndexPaths(resolved)) needed.insert(*path);
  folder_.Collect(needed);
  return absl::OkStatus();
}

absl::Status IndexStore::BuildOfObjects(const IndexKind& kind, const std::vector<size_t>& missing,
                                        internal::v1::ResolvedSource& resolved,
                                        const FindProgressFn& progress,
                                        const FindCancelledFn& cancelled) {
  const uint64_t total = static_cast<uint64_t>(resolved.files_size());
  uint64_t records = 0;
  const auto begin = [&](size_t i, ObjectFetcher::Trust trust) {
    return std::make_unique<ObjectFetcher::WholeFetch>(
        *objects_, resolved.files(static_cast<int>(missing[i])), trust);
  };
  // One is fetched while the one before it is indexed.
  std::unique_ptr<ObjectFetcher::WholeFetch> next;
  for (size_t i = 0; i < missing.size(); ++i) {
    const internal::v1::ResolvedFile& file = resolved.files(static_cast<int>(missing[i]));
    const auto report = [&](const v1::Progress& of_one) {
      v1::Progress all = of_one;
      all.set_files_done(total - missing.size() + i);
      all.set_files_total(total);
      all.set_records(records + of_one.records());
      if (i + 1 < missing.size()) all.clear_eta();
      progress(all);
    };
    const auto build = [&](ObjectFetcher::WholeFetch& fetch) -> absl::Status {
      BULKHEAD_RETURN_IF_ERROR(AwaitFetch(fetch, file, report, cancelled));
      return build_(kind, {missing[i]}, folder_, resolved, report, cancelled);
    };
    std::unique_ptr<ObjectFetcher::WholeFetch> fetch = std::move(next);
    if (fetch == nullptr) fetch = begin(i, internal::v1::FetchParts::TRUST_UNSPECIFIED);
    if (i + 1 < missing.size()) next = begin(i + 1, internal::v1::FetchParts::TRUST_UNSPECIFIED);
    absl::Status built = build(*fetch);
    // Blocks that are damaged on the disk, or bytes that arrived wrong.
    if (const auto trust = TrustAfter(built); trust.has_value()) {
      fetch = begin(i, *trust);
      built = build(*fetch);
    }
    BULKHEAD_RETURN_IF_ERROR(built);
    records += file.record_count();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SharedFd>> IndexStore::KeepOpen(internal::v1::ResolvedSource& resolved) {
  return folder_.Open(IndexPaths(resolved));
}

void IndexStore::NoteDamage(const internal::v1::ResolvedSource& resolved,
                            const absl::Status& damage) {
  const auto info = GetErrorInfo(damage);
  if (!info.has_value() || info->reason != reason::kIndexDamaged) return;
  const auto name = info->metadata.find("file");
  if (name == info->metadata.end()) return;
  for (const internal::v1::ResolvedFile& file : resolved.files()) {
    if (file.name() != name->second) continue;
    folder_.NoteDamaged(file.index_path());
    folder_.NoteDamaged(file.selection_path());
  }
  for (const internal::v1::ResolvedSource& mixed : resolved.mixed()) NoteDamage(mixed, damage);
}

}  // namespace bulkhead
