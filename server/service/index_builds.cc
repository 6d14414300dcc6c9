#include "server/service/index_builds.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/data/index_folder.h"
#include "server/os/event_loop.h"
#include "server/os/monotonic_wait.h"

namespace bulkhead {
namespace {

// Jobs queued beyond those in work. A worker without a next job ends, and a small file is done long
// before this thread wakes up.
constexpr size_t kMostWaiting = 64;

// State shared by a Builder's caller, which waits, and the supervisor's thread, which reports.
struct Build {
  struct Job {
    size_t file = 0;  // index in ResolvedSource.files
    UniqueFd fd;
    uint64_t id = 0;
    uint64_t records = 0;
    uint64_t bytes_done = 0;
    std::optional<absl::StatusOr<uint64_t>> result;
  };
  absl::Mutex mutex;
  std::vector<std::shared_ptr<Job>> running;  // used by the waiting thread
};

// Runs the jobs of one source, several at a time.
struct Builder {
  const IndexKind& kind;
  internal::v1::ResolvedSource& resolved;
  IndexFolder& folder;
  const uint64_t quota_bytes;
  Supervisor* const supervisor;
  const std::shared_ptr<Build> build = std::make_shared<Build>();

  ~Builder() {
    for (const auto& job : build->running) supervisor->CancelIndexJob(job->id);
  }

  size_t running() const { return build->running.size(); }
  absl::Status StartJob(size_t file_index);
  // Waits up to `timeout` for jobs to end, and publishes their results.
  absl::Status Collect(absl::Duration timeout);
  // Records found in the running files, and the share of them read so far.
  void AddProgress(uint64_t& records, double& files) const;
};

absl::Status Builder::StartJob(size_t file_index) {
  auto job = std::make_shared<Build::Job>();
  job->file = file_index;
  absl::StatusOr<UniqueFd> fd = folder.Create();
  if (!fd.ok()) {
    return MakeError(
        fd.status().code(), reason::kFileUnreadable,
        absl::StrCat("the cache folder cannot be used: ", std::string(fd.status().message()),
                     "; give another --cache-dir"));
  }
  job->fd = *std::move(fd);
  IndexJob request;
  request.request = kind.request(resolved.files(static_cast<int>(file_index)));
  request.request.set_base_dir(resolved.base_dir());
  *request.request.mutable_roots() = resolved.roots();
  request.request.set_quota_bytes(quota_bytes);
  request.fd = job->fd.get();
  request.opening = build;
  request.on_progress = [build = build, job](uint64_t records, uint64_t bytes_done) {
    absl::MutexLock lock(&build->mutex);
    job->records = records;
    job->bytes_done = bytes_done;
  };
  request.on_done = [build = build, job](absl::StatusOr<uint64_t> records) {
    absl::MutexLock lock(&build->mutex);
    job->result = std::move(records);
  };
  job->id = supervisor->AddIndexJob(std::move(request));
  build->running.push_back(std::move(job));
  return absl::OkStatus();
}

absl::Status Builder::Collect(absl::Duration timeout) {
  std::vector<std::shared_ptr<Build::Job>> done;
  {
    absl::MutexLock lock(&build->mutex);
    const auto any_done = [this] {
      return std::any_of(build->running.begin(), build->running.end(),
                         [](const auto& job) { return job->result.has_value(); });
    };
    AwaitFor(build->mutex, any_done, timeout);
    const auto first_done =
        std::stable_partition(build->running.begin(), build->running.end(),
                              [](const auto& job) { return !job->result.has_value(); });
    done.assign(first_done, build->running.end());
    build->running.erase(first_done, build->running.end());
  }
  for (const auto& job : done) {
    if (!job->result->ok()) return job->result->status();
    internal::v1::ResolvedFile& file = *resolved.mutable_files(static_cast<int>(job->file));
    BULKHEAD_ASSIGN_OR_RETURN(const IndexHeader header, CheckIndex(job->fd.get(), kind));
    if (!kind.belongs(header, file)) {
      return absl::DataLossError("an index worker wrote the index of another file");
    }
    const std::string path = kind.path(file, header);
    if (absl::Status published = folder.Publish(job->fd.get(), path); !published.ok()) {
      return MakeError(published.code(), reason::kFileUnreadable,
                       absl::StrCat("the index of ", Printable(file.name()),
                                    " cannot be stored: ", std::string(published.message())),
                       {{"file", file.name()}});
    }
    kind.adopt(header, path, file);
  }
  return absl::OkStatus();
}

void Builder::AddProgress(uint64_t& records, double& files) const {
  absl::MutexLock lock(&build->mutex);
  for (const auto& job : build->running) {
    const uint64_t size = resolved.files(static_cast<int>(job->file)).size_bytes();
    records += job->records;
    if (size > 0) files += static_cast<double>(std::min(job->bytes_done, size)) / size;
  }
}

}  // namespace

BuildIndexesFn IndexBuilder(uint32_t max_parallel, uint64_t worker_quota_bytes,
                            Supervisor* supervisor) {
  return [=](const IndexKind& kind, const std::vector<size_t>& missing, IndexFolder& folder,
             internal::v1::ResolvedSource& resolved, const FindCaller& caller) -> absl::Status {
    Builder builder{kind, resolved, folder, worker_quota_bytes, supervisor};
    const int64_t begin_ns = MonotonicNanos();
    size_t next = 0;
    while (next < missing.size() || builder.running() > 0) {
      while (next < missing.size() && builder.running() < max_parallel + kMostWaiting) {
        BULKHEAD_RETURN_IF_ERROR(builder.StartJob(missing[next++]));
      }
      BULKHEAD_RETURN_IF_ERROR(builder.Collect(absl::Milliseconds(250)));
      if (caller.cancelled()) return absl::CancelledError("the client is gone");

      v1::Progress report;
      uint64_t records = 0;
      for (const auto& file : resolved.files()) {
        // For an unfinished file this is what its job has reported.
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
        const absl::Duration passed = absl::Nanoseconds(MonotonicNanos() - begin_ns);
        report.mutable_eta()->set_seconds(
            static_cast<int64_t>(absl::ToDoubleSeconds(passed) / files * left));
      }
      report.set_activity(builder.running() > 0
                              ? absl::StrCat(kind.activity, " ",
                                             Printable(resolved.files(missing[next - 1]).name()))
                              : "indexed");
      caller.progress(report);
    }
    return absl::OkStatus();
  };
}

}  // namespace bulkhead
