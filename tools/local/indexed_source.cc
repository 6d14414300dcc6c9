#include "tools/local/indexed_source.h"

#include <fcntl.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/index_header.h"
#include "server/os/fd.h"
#include "server/os/filesystem.h"
#include "server/source/index_builder.h"
#include "server/spec/selection.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

absl::Status NotFound(const std::string& path) {
  return MakeError(
      absl::StatusCode::kNotFound, reason::kFileNotFound,
      absl::StrCat("no file matches ", path, "; relative paths start from the spec's folder"),
      {{"file", path}});
}

absl::Status Unwritable(const std::string& path, int error) {
  return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                   absl::StrCat(path, ": ", std::generic_category().message(error),
                                "; set TMPDIR to a folder that can be written to"),
                   {{"file", path}});
}

std::string Absolute(const std::string& base_dir, const std::string& path) {
  return absl::StartsWith(path, "/") ? path : absl::StrCat(base_dir, "/", path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<IndexedSource>> IndexedSource::Create(const v1::PipelineSpec& spec,
                                                                     const std::string& base_dir,
                                                                     const ProgressFn& progress) {
  std::unique_ptr<IndexedSource> source(new IndexedSource(spec));
  const internal::v1::Selection selection = SelectionOf(spec, spec.errors());
  if (!spec.source().has_range()) {
    BULKHEAD_RETURN_IF_ERROR(source->FindFiles(base_dir));
    BULKHEAD_RETURN_IF_ERROR(source->MakeFolder());
    BULKHEAD_RETURN_IF_ERROR(source->BuildIndexes(progress));
    if (SelectsRecords(selection)) BULKHEAD_RETURN_IF_ERROR(source->BuildSelections(progress));
  } else if (SelectsRecords(selection)) {
    internal::v1::ResolvedFile& file = *source->resolved_.add_files();
    file.set_name("range");
    file.set_record_count(spec.source().range().size());
    BULKHEAD_RETURN_IF_ERROR(source->MakeFolder());
    BULKHEAD_RETURN_IF_ERROR(source->BuildSelections(progress));
  }
  SetWindow(selection, source->resolved_);
  source->counts_ = CountSelected(spec.source(), source->resolved_);
  BULKHEAD_RETURN_IF_ERROR(CheckSelected(selection, source->counts_));
  source->file_records_ = SelectedFileRecords(spec.source(), source->resolved_);
  for (const auto& file : source->resolved_.files()) source->file_names_.push_back(file.name());
  if (source->file_names_.empty()) source->file_names_ = {"range"};
  return source;
}

IndexedSource::~IndexedSource() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

absl::StatusOr<std::unique_ptr<Source>> IndexedSource::Open() const {
  return OpenSource(spec_.source(), spec_.features(), resolved_);
}

absl::Status IndexedSource::FindFiles(const std::string& base_dir) {
  resolved_.set_base_dir(base_dir);
  const v1::Source& source = spec_.source();
  std::set<std::string> paths;  // sorted, as the service sorts them
  for (const std::string& pattern : source.tfrecord().files()) {
    BULKHEAD_ASSIGN_OR_RETURN(const auto found, ExpandGlob(Absolute(base_dir, pattern)));
    if (found.empty()) return NotFound(pattern);
    paths.insert(found.begin(), found.end());
  }
  if (source.has_image_list() && !source.image_list().path().empty()) {
    paths.insert(Absolute(base_dir, source.image_list().path()));
  }
  if (source.has_image_folder()) paths.insert(Absolute(base_dir, source.image_folder().path()));
  std::set<std::string> real_paths;
  for (const std::string& path : paths) {
    const auto real = RealPath(path);
    if (!real.ok()) return NotFound(path);
    real_paths.insert(*real);
  }
  for (const std::string& path : real_paths) {
    BULKHEAD_RETURN_IF_ERROR(
        AddFile(path, IsBeneath(path, base_dir) && path != base_dir
                          ? path.substr(base_dir.size() + (base_dir == "/" ? 0 : 1))
                          : path));
  }
  if (resolved_.files().empty()) resolved_.add_files()->set_name("entries");  // an inline list
  return absl::OkStatus();
}

absl::Status IndexedSource::AddFile(const std::string& path, const std::string& name) {
  BULKHEAD_ASSIGN_OR_RETURN(const FileInfo info, StatFile(path));
  internal::v1::ResolvedFile& file = *resolved_.add_files();
  file.set_path(path);
  file.set_name(name);
  file.set_size_bytes(info.size_bytes);
  file.set_mtime_ns(info.mtime_ns);
  return absl::OkStatus();
}

absl::Status IndexedSource::MakeFolder() {
  std::error_code no_folder;
  const fs::path temporary = fs::temp_directory_path(no_folder);
  folder_ = ((no_folder ? fs::path("/tmp") : temporary) / "bulkhead-order-XXXXXX").string();
  if (mkdtemp(folder_.data()) != nullptr) return absl::OkStatus();
  const absl::Status status = Unwritable(folder_, errno);
  folder_.clear();
  return status;
}

absl::StatusOr<std::string> IndexedSource::Build(const internal::v1::BuildIndex& request,
                                                 const std::string& name, uint64_t& records) const {
  const std::string path = absl::StrCat(folder_, "/", name);
  const UniqueFd fd(open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (!fd) return Unwritable(path, errno);
  BULKHEAD_ASSIGN_OR_RETURN(records, BuildIndex(request, fd.get(), [](uint64_t, uint64_t) {}));
  return path;
}

absl::Status IndexedSource::BuildIndexes(const ProgressFn& progress) {
  for (int i = 0; i < resolved_.files_size(); ++i) {
    internal::v1::ResolvedFile& file = *resolved_.mutable_files(i);
    progress(file.name(), i, resolved_.files_size());
    internal::v1::BuildIndex request;
    *request.mutable_source() = spec_.source();
    *request.mutable_file() = file;
    request.set_base_dir(resolved_.base_dir());
    uint64_t records = 0;
    BULKHEAD_ASSIGN_OR_RETURN(const std::string path,
                              Build(request, absl::StrCat(i, ".index"), records));
    file.set_index_path(path);
    file.set_record_count(records);
  }
  return absl::OkStatus();
}

absl::Status IndexedSource::BuildSelections(const ProgressFn& progress) {
  for (int i = 0; i < resolved_.files_size(); ++i) {
    internal::v1::ResolvedFile& file = *resolved_.mutable_files(i);
    progress(file.name(), i, resolved_.files_size());
    internal::v1::BuildIndex request;
    *request.mutable_source() = spec_.source();
    *request.mutable_features() = spec_.features();
    *request.mutable_file() = file;
    request.set_base_dir(resolved_.base_dir());
    *request.mutable_selection() = SelectionOf(spec_, spec_.errors());
    uint64_t kept = 0;
    BULKHEAD_ASSIGN_OR_RETURN(const std::string path,
                              Build(request, absl::StrCat(i, ".selection"), kept));
    BULKHEAD_ASSIGN_OR_RETURN(const std::string prefix, ReadPrefix(path, IndexHeader::kBytes));
    BULKHEAD_ASSIGN_OR_RETURN(const IndexHeader header, IndexHeader::Parse(prefix));
    file.set_selection_path(path);
    file.set_part_count(header.part_count);
    file.set_kept_count(kept);
  }
  return absl::OkStatus();
}

}  // namespace bulkhead::tools
