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
#include "server/os/files/filesystem.h"
#include "server/spec/record_files.h"
#include "server/spec/selection.h"

namespace bulkhead {

using internal::v1::FetchParts;
using internal::v1::ResolvedFile;
using internal::v1::ResolvedSource;

namespace {

// A larger object is no file of classes, and is not fetched.
constexpr uint64_t kMostClassesBytes = 4 * kMaxClassNamesBytes;

// A list names objects, and there is no table of them.
bool WantsTable(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  return info.has_value() && info->reason == reason::kNotFetched && info->metadata.count("urls");
}

// How the object is to be fetched once more for an index that could not be built; absent: it would
// not help.
std::optional<ObjectFetcher::Trust> TrustAfter(const absl::Status& status) {
  const std::string why = GetErrorInfo(status).value_or(ErrorInfo{}).reason;
  if (why == reason::kNotFetched && !WantsTable(status)) return FetchParts::TRUST_CHECKSUMS;
  const bool is_wrong = why == reason::kCorruptRecord || why == reason::kTruncatedRecord;
  return is_wrong ? std::optional(FetchParts::TRUST_NOTHING) : std::nullopt;
}

// What a list or names of classes say may be wrong because their bytes arrived wrong: these have no
// checksum.
bool MayHaveArrivedWrong(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsDataLoss(status);
}

// Copies an index header's facts to the file.
void AdoptIndex(const IndexHeader& header, const std::string& path, ResolvedFile& file) {
  file.set_index_path(path);
  file.set_record_count(header.record_count);
  file.set_checksum(header.checksum.data(), header.checksum.size());
}

// Copies a selection header's facts to the file.
void AdoptSelection(const IndexHeader& header, const std::string& path, ResolvedFile& file) {
  file.set_selection_path(path);
  file.set_part_count(header.part_count);
  file.set_kept_count(header.record_count);
}

// Whether the selection's header fits this file's index.
bool BelongsTo(const IndexHeader& header, const ResolvedFile& file) {
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

std::string IndexStore::CachedPath(const v1::Source& source, const ResolvedFile& file) const {
  const v1::Compression compression = RecordFilesOf(source).compression;
  const std::string hash = Sha256Hex(absl::StrCat(
      "bulkhead index ", IndexHeader::kVersion, "\n", source.source_case(), "\n", file.path(), "\n",
      file.size_bytes(), "\n", file.mtime_ns(), "\n", compression, "\n"));
  return absl::StrCat(folder_.path(), "/", hash.substr(0, 32), ".index");
}

absl::Status IndexStore::EnsureIndexes(const v1::Source& source,
                                       const internal::v1::Selection& selection,
                                       ResolvedSource& resolved, const FindCaller& caller) {
  if (source.has_range()) return absl::OkStatus();
  if (resolved.files().empty()) resolved.add_files()->set_name("entries");  // an inline list
  if (resolved.classes().has_object() && resolved.classes().size_bytes() > kMostClassesBytes) {
    return InvalidClassesFile(resolved.classes().name(), 1,
                              absl::StrCat("begins a file of ", resolved.classes().size_bytes(),
                                           " bytes; names of classes have at most 1 MiB"));
  }

  const bool cacheable = HasRecordFiles(source);
  IndexKind kind;
  kind.activity = "indexing";
  kind.header_kind = static_cast<uint32_t>(source.source_case());
  kind.request = [&](const ResolvedFile& file) {
    internal::v1::BuildIndex request;
    *request.mutable_source() = source;
    *request.mutable_file() = file;
    // One that is excluded may be missing; what is not will be missed by its sample.
    request.set_keep_missing(selection.keep_unreadable() || !selection.exclude().empty());
    request.set_keep_malformed(selection.keep_malformed());
    if (resolved.has_classes()) *request.mutable_classes() = resolved.classes();
    return request;
  };
  kind.path = [&](const ResolvedFile& file, const IndexHeader& header) {
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
    ResolvedFile& folder = *resolved.mutable_files(0);
    internal::v1::ListObjects list;
    list.set_folder(folder.path());
    BULKHEAD_RETURN_IF_ERROR(List(std::move(list), nullptr,
                                  absl::StrCat("listing ", ShownUrl(folder.path())), folder,
                                  caller));
  }
  std::vector<size_t> missing = {0};  // a list or folder, which is read anew
  if (cacheable) {
    const auto fits = [](const IndexHeader& header, const ResolvedFile& file) {
      return header.file_size_bytes == file.size_bytes() && header.file_mtime_ns == file.mtime_ns();
    };
    missing = AdoptKept(kind, fits, resolved);
  }
  const auto build = [&] { return BuildNamed(kind, missing, resolved, caller); };
  const absl::Status built = build();
  if (cacheable || !MayHaveArrivedWrong(built)) return built;
  // Lists and names of classes are read from the store once more, past the cache.
  std::vector<std::unique_ptr<ObjectFetcher::WholeFetch>> again;
  for (const ResolvedFile* text : {&resolved.files(0), &resolved.classes()}) {
    if (!text->has_object()) continue;
    again.push_back(
        std::make_unique<ObjectFetcher::WholeFetch>(*objects_, *text, FetchParts::TRUST_NOTHING));
    BULKHEAD_RETURN_IF_ERROR(AwaitFetch(*again.back(), *text, caller));
  }
  if (again.empty()) return built;
  if (source.has_image_list()) resolved.mutable_files(0)->clear_table();
  return build();
}

absl::Status IndexStore::BuildNamed(const IndexKind& kind, const std::vector<size_t>& missing,
                                    ResolvedSource& resolved, const FindCaller& caller) {
  const auto build = [&]() -> absl::Status {
    const absl::Status built = Build(kind, missing, resolved, caller);
    if (!WantsTable(built)) return built;
    BULKHEAD_RETURN_IF_ERROR(ListUrls(kind, resolved, caller));
    return Build(kind, missing, resolved, caller);
  };
  if (!resolved.classes().has_object()) return build();
  absl::Status built;
  for (ObjectFetcher::Trust trust : {FetchParts::TRUST_UNSPECIFIED, FetchParts::TRUST_CHECKSUMS}) {
    ObjectFetcher::WholeFetch classes(*objects_, resolved.classes(), trust);
    BULKHEAD_RETURN_IF_ERROR(AwaitFetch(classes, resolved.classes(), caller));
    built = build();
    if (TrustAfter(built) != FetchParts::TRUST_CHECKSUMS) break;
  }
  return built;
}

absl::Status IndexStore::AwaitFetch(ObjectFetcher::WholeFetch& fetch, const ResolvedFile& file,
                                    const FindCaller& caller) {
  v1::Progress fetching;
  fetching.set_activity(absl::StrCat("fetching ", ShownUrl(file.object().url())));
  return fetch.Wait(Telling(caller, [&] { return fetching; }));
}

absl::Status IndexStore::ListUrls(const IndexKind& indexing, ResolvedSource& resolved,
                                  const FindCaller& caller) {
  ResolvedFile& file = *resolved.mutable_files(0);
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
  urls.request = [&](const ResolvedFile& list) {
    internal::v1::BuildIndex request = indexing.request(list);
    request.set_urls_only(true);
    return request;
  };
  // At once, since a full folder keeps only what a source needs.
  urls.adopt = [&](const IndexHeader&, const std::string& built, const auto&) {
    found = OpenOwnFile(built, /*writable=*/false);
  };
  urls.is_done = [&](const auto&) { return found.has_value(); };
  BULKHEAD_RETURN_IF_ERROR(Build(urls, {0}, resolved, caller));
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd fd, *std::move(found));
  internal::v1::ListObjects list;
  *list.mutable_roots() = resolved.roots();
  return Annotate(List(std::move(list), std::make_shared<const UniqueFd>(std::move(fd)),
                       absl::StrCat("looking up the objects of ", file.name()), file, caller),
                  file.name());
}

absl::Status IndexStore::List(internal::v1::ListObjects list, SharedFd urls,
                              const std::string& what, ResolvedFile& file,
                              const FindCaller& caller) {
  v1::Progress report;
  report.set_activity(what);
  report.set_files_total(1);
  BULKHEAD_ASSIGN_OR_RETURN(
      *file.mutable_table(),
      objects_->List(
          std::move(list), std::move(urls), [&](uint64_t objects) { report.set_records(objects); },
          Telling(caller, [&] { return report; })));
  return absl::OkStatus();
}

absl::StatusOr<ClassNames> IndexStore::NamesOf(const ResolvedSource& resolved) const {
  const bool has_index = resolved.files_size() == 1 && !resolved.files(0).index_path().empty();
  if (!has_index) return ClassNames();
  absl::StatusOr<ClassNames> names = ReadClassNames(resolved.files(0).index_path());
  if (names.ok()) return names;
  return MakeError(absl::StatusCode::kDataLoss, reason::kIndexDamaged, names.status().message(),
                   {{"file", resolved.files(0).name()}});
}

absl::Status IndexStore::EnsureSelections(const v1::Source& source, const FeatureMap& features,
                                          const internal::v1::Selection& selection,
                                          ResolvedSource& resolved, const FindCaller& caller) {
  if (!SelectsRecords(selection)) return absl::OkStatus();
  if (source.has_range()) {
    ResolvedFile& file = *resolved.add_files();
    file.set_name("range");
    file.set_record_count(source.range().size());
  }
  const std::string digest = SelectionDigest(source, features, selection);
  IndexKind kind;
  kind.activity = "selecting from";
  kind.reads_data = !selection.filter().empty();
  kind.header_kind = static_cast<uint32_t>(source.source_case()) + IndexHeader::kSelection;
  kind.request = [&](const ResolvedFile& file) {
    internal::v1::BuildIndex request;
    *request.mutable_source() = source;
    *request.mutable_file() = file;
    *request.mutable_selection() = selection;
    *request.mutable_features() = features;
    return request;
  };
  kind.path = [&](const ResolvedFile& file, const IndexHeader&) {
    const std::string hash =
        Sha256Hex(absl::StrCat("bulkhead selection ", IndexHeader::kVersion, "\n", digest, "\n",
                               file.index_path(), "\n", file.name(), "\n", file.record_count(),
                               "\n", absl::BytesToHexString(file.checksum()), "\n"));
    return absl::StrCat(folder_.path(), "/", hash.substr(0, 32), ".selection");
  };
  kind.adopt = AdoptSelection;
  kind.belongs = BelongsTo;
  kind.is_done = [](const auto& file) { return !file.selection_path().empty(); };
  const auto fits = [&](const IndexHeader& header, const ResolvedFile& file) {
    return header.kind == kind.header_kind && BelongsTo(header, file);
  };
  return Build(kind, AdoptKept(kind, fits, resolved), resolved, caller);
}

std::vector<size_t> IndexStore::AdoptKept(const IndexKind& kind,
                                          const decltype(IndexKind::belongs)& fits,
                                          ResolvedSource& resolved) {
  std::vector<size_t> missing;
  for (int i = 0; i < resolved.files_size(); ++i) {
    ResolvedFile& file = *resolved.mutable_files(i);
    const std::string path = kind.path(file, IndexHeader());
    const std::optional<IndexHeader> header = folder_.Find(path);
    if (header.has_value() && fits(*header, file)) {
      kind.adopt(*header, path, file);
    } else {
      missing.push_back(static_cast<size_t>(i));
    }
  }
  return missing;
}

absl::Status IndexStore::Build(const IndexKind& kind, const std::vector<size_t>& missing,
                               ResolvedSource& resolved, const FindCaller& caller) {
  if (missing.empty()) return absl::OkStatus();
  std::vector<size_t> files;
  std::vector<size_t> objects;
  for (const size_t i : missing) {
    const bool fetched = kind.reads_data && resolved.files(static_cast<int>(i)).has_object();
    (fetched ? objects : files).push_back(i);
  }
  if (!files.empty()) {
    BULKHEAD_RETURN_IF_ERROR(build_(kind, files, folder_, resolved, caller));
  }
  if (kind.claim != nullptr && !objects.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(objects,
                              AdoptPublished(*objects_, folder_, kind, objects, resolved, caller));
  }
  BULKHEAD_RETURN_IF_ERROR(BuildOfObjects(kind, objects, resolved, caller));
  std::set<std::string> needed;
  for (const std::string* path : IndexPaths(resolved)) needed.insert(*path);
  folder_.Collect(needed);
  return absl::OkStatus();
}

absl::Status IndexStore::BuildOfObjects(const IndexKind& kind, const std::vector<size_t>& missing,
                                        ResolvedSource& resolved, const FindCaller& caller) {
  const uint64_t total = static_cast<uint64_t>(resolved.files_size());
  uint64_t records = 0;
  const auto begin = [&](size_t i, ObjectFetcher::Trust trust) {
    return std::make_unique<ObjectFetcher::WholeFetch>(
        *objects_, resolved.files(static_cast<int>(missing[i])), trust);
  };
  // One is fetched while the one before it is indexed.
  std::unique_ptr<ObjectFetcher::WholeFetch> next;
  for (size_t i = 0; i < missing.size(); ++i) {
    const ResolvedFile& file = resolved.files(static_cast<int>(missing[i]));
    const auto report = [&](const v1::Progress& of_one) {
      v1::Progress all = of_one;
      all.set_files_done(total - missing.size() + i);
      all.set_files_total(total);
      all.set_records(records + of_one.records());
      if (i + 1 < missing.size()) all.clear_eta();
      caller.progress(all);
    };
    const FindCaller of_one{report, caller.cancelled};
    const auto build = [&](ObjectFetcher::WholeFetch& fetch) -> absl::Status {
      BULKHEAD_RETURN_IF_ERROR(AwaitFetch(fetch, file, of_one));
      return build_(kind, {missing[i]}, folder_, resolved, of_one);
    };
    std::unique_ptr<ObjectFetcher::WholeFetch> fetch = std::move(next);
    if (fetch == nullptr) fetch = begin(i, FetchParts::TRUST_UNSPECIFIED);
    if (i + 1 < missing.size()) next = begin(i + 1, FetchParts::TRUST_UNSPECIFIED);
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

absl::StatusOr<std::vector<SharedFd>> IndexStore::KeepOpen(ResolvedSource& resolved) {
  return folder_.Open(IndexPaths(resolved));
}

void IndexStore::NoteDamage(const ResolvedSource& resolved, const absl::Status& damage) {
  const auto info = GetErrorInfo(damage);
  if (!info.has_value() || info->reason != reason::kIndexDamaged) return;
  const auto name = info->metadata.find("file");
  if (name == info->metadata.end()) return;
  for (const ResolvedFile& file : resolved.files()) {
    if (file.name() != name->second) continue;
    folder_.NoteDamaged(file.index_path());
    folder_.NoteDamaged(file.selection_path());
  }
  for (const ResolvedSource& mixed : resolved.mixed()) NoteDamage(mixed, damage);
}

}  // namespace bulkhead
