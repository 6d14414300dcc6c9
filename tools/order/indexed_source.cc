#include "tools/order/indexed_source.h"

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
#include "server/os/fd.h"
#include "server/os/filesystem.h"
#include "server/source/index_builder.h"

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
  if (spec.source().has_range()) {
    source->file_names_ = {"range"};
    source->file_records_ = {spec.source().range().size()};
    source->record_count_ = spec.source().range().size();
    return source;
  }
  BULKHEAD_RETURN_IF_ERROR(source->FindFiles(base_dir));
  BULKHEAD_RETURN_IF_ERROR(source->BuildIndexes(progress));
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

absl::Status IndexedSource::BuildIndexes(const ProgressFn& progress) {
  std::error_code no_folder;
  const fs::path temporary = fs::temp_directory_path(no_folder);
  folder_ = ((no_folder ? fs::path("/tmp") : temporary) / "bulkhead-order-XXXXXX").string();
  if (mkdtemp(folder_.data()) == nullptr) {
    const absl::Status status = Unwritable(folder_, errno);
    folder_.clear();
    return status;
  }
  for (int i = 0; i < resolved_.files_size(); ++i) {
    internal::v1::ResolvedFile& file = *resolved_.mutable_files(i);
    progress(file.name(), i, resolved_.files_size());
    const std::string path = absl::StrCat(folder_, "/", i, ".index");
    const UniqueFd fd(open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
    if (!fd) return Unwritable(path, errno);
    internal::v1::BuildIndex request;
    *request.mutable_source() = spec_.source();
    *request.mutable_file() = file;
    request.set_base_dir(resolved_.base_dir());
    BULKHEAD_ASSIGN_OR_RETURN(const uint64_t records,
                              BuildIndex(request, fd.get(), [](uint64_t, uint64_t) {}));
    file.set_index_path(path);
    file.set_record_count(records);
    file_names_.push_back(file.name());
    file_records_.push_back(records);
    record_count_ += records;
  }
  return absl::OkStatus();
}

}  // namespace bulkhead::tools
