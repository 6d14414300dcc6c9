#include "server/service/index_store.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/index_header.h"
#include "server/os/filesystem.h"
#include "server/spec/selection.h"

namespace bulkhead {
namespace {

// Takes over what an index's header says.
void AdoptIndex(const IndexHeader& header, const std::string& path,
                internal::v1::ResolvedFile& file) {
  file.set_index_path(path);
  file.set_record_count(header.record_count);
  file.set_checksum(header.checksum.data(), header.checksum.size());
}

// Takes over what a selection's header says.
void AdoptSelection(const IndexHeader& header, const std::string& path,
                    internal::v1::ResolvedFile& file) {
  file.set_selection_path(path);
  file.set_part_count(header.part_count);
  file.set_kept_count(header.record_count);
}

// Whether a selection was made from this file's index, as far as its header tells.
bool BelongsTo(const IndexHeader& header, const internal::v1::ResolvedFile& file) {
  const absl::string_view checksum(reinterpret_cast<const char*>(header.checksum.data()),
                                   header.checksum.size());
  return header.file_size_bytes == file.size_bytes() && header.file_mtime_ns == file.mtime_ns() &&
         header.indexed_count == file.record_count() &&
         (file.checksum().empty() || checksum == file.checksum()) &&
         header.record_count <= header.part_count && header.part_count <= header.indexed_count;
}

// Checks what a worker wrote, without trusting or parsing more than its header.
absl::StatusOr<IndexHeader> CheckIndex(int fd, uint32_t kind) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string prefix, ReadPrefix(fd, IndexHeader::kBytes));
  BULKHEAD_ASSIGN_OR_RETURN(const IndexHeader header, IndexHeader::Parse(prefix));
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t size, FileSize(fd));
  if (header.kind != kind || size - IndexHeader::kBytes != header.payload_bytes) {
    return absl::DataLossError("an index worker wrote an index that is not one");
  }
  return header;
}

// What the threads of one Builder share: the caller waits, the supervisor's thread reports.
struct Build {
  struct Job {
    size_t file = 0;  // in ResolvedSource.files
    UniqueFd fd;
    uint64_t id = 0;
    uint64_t records = 0;
    uint64_t bytes_done = 0;
    std::optional<absl::StatusOr<uint64_t>> result;
  };
  absl::Mutex mutex;
  std::vector<std::shared_ptr<Job>> running;  // of the waiting thread
};

}  // namespace

// What is built for each file: its index, or a selection.
struct IndexStore::Kind {
  absl::string_view activity;  // "indexing"
  uint32_t header_kind = 0;
  std::function<internal::v1::BuildIndex(const internal::v1::ResolvedFile&)> request;
  std::function<std::string(const internal::v1::ResolvedFile&, const IndexHeader&)> path;
  std::function<void(const IndexHeader&, const std::string& path, internal::v1::ResolvedFile&)>
      adopt;
  std::function<bool(const internal::v1::ResolvedFile&)> is_done;
};

// Runs the jobs of one source, some at a time.
class IndexStore::Builder {
 public:
  Builder(const Kind& kind, internal::v1::ResolvedSource& resolved, const std::string& cache_dir,
          uint64_t quota_bytes, Supervisor* supervisor)
      : kind_(kind),
        resolved_(resolved),
        cache_dir_(cache_dir),
        quota_bytes_(quota_bytes),
        supervisor_(supervisor),
        build_(std::make_shared<Build>()) {}
  ~Builder() {
    for (const auto& job : build_->running) supervisor_->CancelIndexJob(job->id);
  }

  bool busy() const { return !build_->running.empty(); }
  size_t running() const { return build_->running.size(); }
  absl::Status StartJob(size_t file_index);
  // Waits up to `timeout` for a job to end; publishes what has ended.
  absl::Status Collect(absl::Duration timeout);
  // Records found and share of the running files read so far.
  void AddProgress(uint64_t& records, double& files) const;

 private:
  const Kind& kind_;
  internal::v1::ResolvedSource& resolved_;
  const std::string& cache_dir_;
  const uint64_t quota_bytes_;
  Supervisor* const supervisor_;
  const std::shared_ptr<Build> build_;
};

absl::Status IndexStore::Builder::StartJob(size_t file_index) {
  auto job = std::make_shared<Build::Job>();
  job->file = file_index;
  absl::StatusOr<UniqueFd> fd = CreateUnnamedFile(cache_dir_);
  if (!fd.ok()) {
    return MakeError(
        fd.status().code(), reason::kFileUnreadable,
        absl::StrCat("the cache folder cannot be used: ", std::string(fd.status().message()),
                     "; give another --cache-dir"));
  }
  job->fd = *std::move(fd);
  IndexJob request;
  request.request = kind_.request(resolved_.files(static_cast<int>(file_index)));
  request.request.set_base_dir(resolved_.base_dir());
  *request.request.mutable_roots() = resolved_.roots();
  request.request.set_quota_bytes(quota_bytes_);
  request.fd = job->fd.get();
  request.on_progress = [build = build_, job](uint64_t records, uint64_t bytes_done) {
    absl::MutexLock lock(&build->mutex);
    job->records = records;
    job->bytes_done = bytes_done;
  };
  request.on_done = [build = build_, job](absl::StatusOr<uint64_t> records) {
    absl::MutexLock lock(&build->mutex);
    job->result = std::move(records);
  };
  job->id = supervisor_->AddIndexJob(std::move(request));
  build_->running.push_back(std::move(job));
  return absl::OkStatus();
}

absl::Status IndexStore::Builder::Collect(absl::Duration timeout) {
  std::vector<std::shared_ptr<Build::Job>> done;
  {
    absl::MutexLock lock(&build_->mutex);
    const auto any_done = [this] {
      return std::any_of(build_->running.begin(), build_->running.end(),
                         [](const auto& job) { return job->result.has_value(); });
    };
    build_->mutex.AwaitWithTimeout(absl::Condition(&any_done), timeout);
    const auto first_done =
        std::stable_partition(build_->running.begin(), build_->running.end(),
                              [](const auto& job) { return !job->result.has_value(); });
    done.assign(first_done, build_->running.end());
    build_->running.erase(first_done, build_->running.end());
  }
  for (const auto& job : done) {
    if (!job->result->ok()) return job->result->status();
    internal::v1::ResolvedFile& file = *resolved_.mutable_files(static_cast<int>(job->file));
    BULKHEAD_ASSIGN_OR_RETURN(const IndexHeader header,
                              CheckIndex(job->fd.get(), kind_.header_kind));
    if (header.kind >= IndexHeader::kSelection && !BelongsTo(header, file)) {
      return absl::DataLossError("an index worker wrote the selection of another file");
    }
    const std::string path = kind_.path(file, header);
    if (absl::Status published = PublishFile(job->fd.get(), path); !published.ok()) {
      return MakeError(published.code(), reason::kFileUnreadable,
                       absl::StrCat("the index of ", file.name(),
                                    " cannot be kept: ", std::string(published.message())),
                       {{"file", file.name()}});
    }
    kind_.adopt(header, path, file);
  }
  return absl::OkStatus();
}

void IndexStore::Builder::AddProgress(uint64_t& records, double& files) const {
  absl::MutexLock lock(&build_->mutex);
  for (const auto& job : build_->running) {
    const uint64_t size = resolved_.files(static_cast<int>(job->file)).size_bytes();
    records += job->records;
    if (size > 0) files += static_cast<double>(std::min(job->bytes_done, size)) / size;
  }
}

IndexStore::IndexStore(std::string cache_dir, uint32_t max_parallel, uint64_t worker_quota_bytes,
                       Supervisor* supervisor)
    : cache_dir_(std::move(cache_dir)),
      max_parallel_(max_parallel),
      worker_quota_bytes_(worker_quota_bytes),
      supervisor_(supervisor) {}

std::string IndexStore::CachedPath(const v1::Source& source,
                                   const internal::v1::ResolvedFile& file) const {
  Sha256 hash;
  hash.Update(absl::StrCat("bulkhead index ", IndexHeader::kVersion, "\n", source.source_case(),
                           "\n", file.path(), "\n", file.size_bytes(), "\n", file.mtime_ns(), "\n",
                           source.tfrecord().compression(), "\n"));
  return absl::StrCat(cache_dir_, "/", hash.FinishHex().substr(0, 32), ".index");
}

absl::Status IndexStore::EnsureIndexes(const v1::Source& source,
                                       internal::v1::ResolvedSource& resolved,
                                       const ProgressFn& progress, const CancelledFn& cancelled) {
  if (source.has_range()) return absl::OkStatus();
  if (resolved.files().empty()) resolved.add_files()->set_name("entries");  // an inline list

  const bool cacheable = source.has_tfrecord();
  std::vector<size_t> missing;
  for (int i = 0; i < resolved.files_size(); ++i) {
    internal::v1::ResolvedFile& file = *resolved.mutable_files(i);
    if (cacheable) {
      const std::string path = CachedPath(source, file);
      const auto prefix = ReadPrefix(path, IndexHeader::kBytes);
      const auto header = prefix.ok() ? IndexHeader::Parse(*prefix) : prefix.status();
      if (header.ok() && header->file_size_bytes == file.size_bytes() &&
          header->file_mtime_ns == file.mtime_ns()) {
        AdoptIndex(*header, path, file);
        continue;
      }
    }
    missing.push_back(static_cast<size_t>(i));
  }
  Kind kind;
  kind.activity = "indexing";
  kind.header_kind = static_cast<uint32_t>(source.source_case());
  kind.request = [&](const internal::v1::ResolvedFile& file) {
    internal::v1::BuildIndex request;
    *request.mutable_source() = source;
    *request.mutable_file() = file;
    return request;
  };
  kind.path = [&](const internal::v1::ResolvedFile& file, const IndexHeader& header) {
    if (cacheable) return CachedPath(source, file);
    const absl::string_view checksum(reinterpret_cast<const char*>(header.checksum.data()),
                                     header.checksum.size());
    return absl::StrCat(cache_dir_, "/list-", absl::BytesToHexString(checksum).substr(0, 32), "-",
                        header.payload_crc32c, ".index");
  };
  kind.adopt = AdoptIndex;
  kind.is_done = [](const auto& file) { return !file.index_path().empty(); };
  return BuildMissing(kind, missing, resolved, progress, cancelled);
}

absl::Status IndexStore::EnsureSelections(
    const v1::Source& source, const google::protobuf::Map<std::string, v1::Feature>& features,
    const internal::v1::Selection& selection, internal::v1::ResolvedSource& resolved,
    const ProgressFn& progress, const CancelledFn& cancelled) {
  if (!SelectsRecords(selection)) return absl::OkStatus();
  if (source.has_range()) {
    internal::v1::ResolvedFile& file = *resolved.add_files();
    file.set_name("range");
    file.set_record_count(source.range().size());
  }
  const std::string digest = SelectionDigest(source, features, selection);
  Kind kind;
  kind.activity = "selecting from";
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
    return absl::StrCat(cache_dir_, "/", hash.FinishHex().substr(0, 32), ".selection");
  };
  kind.adopt = AdoptSelection;
  kind.is_done = [](const auto& file) { return !file.selection_path().empty(); };
  std::vector<size_t> missing;
  for (int i = 0; i < resolved.files_size(); ++i) {
    internal::v1::ResolvedFile& file = *resolved.mutable_files(i);
    const std::string path = kind.path(file, IndexHeader());
    const auto prefix = ReadPrefix(path, IndexHeader::kBytes);
    const auto header = prefix.ok() ? IndexHeader::Parse(*prefix) : prefix.status();
    if (header.ok() && header->kind == kind.header_kind && BelongsTo(*header, file)) {
      AdoptSelection(*header, path, file);
    } else {
      missing.push_back(static_cast<size_t>(i));
    }
  }
  return BuildMissing(kind, missing, resolved, progress, cancelled);
}

absl::Status IndexStore::BuildMissing(const Kind& kind, const std::vector<size_t>& missing,
                                      internal::v1::ResolvedSource& resolved,
                                      const ProgressFn& progress, const CancelledFn& cancelled) {
  Builder builder(kind, resolved, cache_dir_, worker_quota_bytes_, supervisor_);
  const absl::Time begin = absl::Now();
  size_t next = 0;
  while (next < missing.size() || builder.busy()) {
    while (next < missing.size() && builder.running() < max_parallel_) {
      BULKHEAD_RETURN_IF_ERROR(builder.StartJob(missing[next++]));
    }
    BULKHEAD_RETURN_IF_ERROR(builder.Collect(absl::Milliseconds(250)));
    if (cancelled()) return absl::CancelledError("the client is gone");

    v1::Progress report;
    uint64_t records = 0;
    for (const auto& file : resolved.files()) {
      // Of a file whose job is not done, that is what the job has reported.
      if (kind.is_done(file)) records += file.record_count();
    }
    const uint64_t done = next - builder.running();
    double files = static_cast<double>(done);
    builder.AddProgress(records, files);
    report.set_files_done(resolved.files_size() - missing.size() + done);
    report.set_files_total(resolved.files_size());
    report.set_records(records);
    if (files > 0) {
      const double left = static_cast<double>(missing.size()) - files;
      report.mutable_eta()->set_seconds(
          static_cast<int64_t>(absl::ToDoubleSeconds(absl::Now() - begin) / files * left));
    }
    report.set_activity(
        builder.busy() ? absl::StrCat(kind.activity, " ", resolved.files(missing[next - 1]).name())
                       : "indexed");
    progress(report);
  }
  return absl::OkStatus();
}

}  // namespace bulkhead
