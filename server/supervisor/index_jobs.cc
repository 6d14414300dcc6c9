#include "server/supervisor/index_jobs.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/arena/worker_error.h"
#include "server/base/error.h"
#include "server/supervisor/worker_usage.h"

namespace bulkhead {

IndexJobs::IndexJobs(std::shared_ptr<EventLoop> loop, std::string worker_program,
                     uint32_t max_workers, ExitLog* exits)
    : loop_(std::move(loop)),
      worker_program_(std::move(worker_program)),
      max_workers_(max_workers),
      exits_(exits) {}

IndexJobs::~IndexJobs() = default;

uint64_t IndexJobs::Add(IndexJob job) {
  auto entry = std::make_unique<Entry>();
  entry->id = next_id_++;
  entry->job = std::move(job);
  entry->job.request.set_job_id(entry->id);
  const uint64_t id = entry->id;
  queue_.push_back(std::move(entry));
  StartWorkers();
  return id;
}

void IndexJobs::Cancel(uint64_t job_id) {
  queue_.erase(std::remove_if(queue_.begin(), queue_.end(),
                              [&](const auto& entry) { return entry->id == job_id; }),
               queue_.end());
  for (const auto& [id, worker] : workers_) {
    if (worker->entry == nullptr || worker->entry->id != job_id) continue;
    worker->entry.reset();
    worker->process->Kill("its job was cancelled");
  }
}

void IndexJobs::StartWorkers() {
  const auto idle = std::count_if(workers_.begin(), workers_.end(), [](const auto& item) {
    return item.second->entry == nullptr && item.second->process->phase() < WorkerPhase::kStopping;
  });
  size_t wanted = queue_.size() > static_cast<size_t>(idle) ? queue_.size() - idle : 0;
  while (wanted-- > 0 && workers_.size() < max_workers_) {
    auto worker = std::make_unique<Worker>();
    Worker* const raw = worker.get();
    raw->id = next_id_++;
    WorkerProcess::Callbacks callbacks;
    callbacks.on_message = [this, raw](const internal::v1::FromWorker& message) {
      OnMessage(*raw, message);
    };
    callbacks.on_exit = [this, id = raw->id](const ProcessExit& exit, const std::string& reason) {
      OnExit(id, exit, reason);
    };
    auto process = WorkerProcess::Start(*loop_, worker_program_, std::move(callbacks));
    if (!process.ok()) {
      const absl::Status failure = MakeError(
          absl::StatusCode::kUnavailable, reason::kWorkerCrashLoop,
          absl::StrCat("no worker could be started: ", std::string(process.status().message())));
      if (!workers_.empty()) return;  // those that run will do the rest
      FailQueue(failure);
      return;
    }
    raw->process = *std::move(process);
    workers_[raw->id] = std::move(worker);
  }
}

void IndexJobs::GiveJob(Worker& worker) {
  if (queue_.empty()) {
    worker.process->Stop(absl::Seconds(1));
    return;
  }
  worker.entry = std::move(queue_.front());
  queue_.pop_front();
  internal::v1::ToWorker message;
  *message.mutable_build_index() = worker.entry->job.request;
  worker.process->Send(message, {worker.entry->job.fd});
}

void IndexJobs::OnMessage(Worker& worker, const internal::v1::FromWorker& message) {
  const auto at_job = [&](uint64_t job_id) {
    return worker.entry != nullptr && worker.entry->id == job_id;
  };
  if (message.has_hello()) {
    worker.greeted = true;
    early_exits_ = 0;
    GiveJob(worker);
  } else if (message.has_index_progress() && at_job(message.index_progress().job_id())) {
    worker.entry->job.on_progress(message.index_progress().records(),
                                  message.index_progress().bytes_done());
  } else if (message.has_index_done() && at_job(message.index_done().job_id())) {
    Finish(worker, message.index_done().records());
  } else if (message.has_failed() && at_job(message.failed().job_id())) {
    Finish(worker, StatusFromWorkerError(message.failed().error()));
  }
}

void IndexJobs::FailQueue(const absl::Status& status) {
  for (auto queue = std::move(queue_); const auto& entry : queue) entry->job.on_done(status);
  queue_.clear();
}

void IndexJobs::Finish(Worker& worker, absl::StatusOr<uint64_t> result) {
  const std::unique_ptr<Entry> entry = std::move(worker.entry);
  GiveJob(worker);
  entry->job.on_done(std::move(result));
}

void IndexJobs::OnExit(uint64_t worker_id, const ProcessExit& exit, const std::string& reason) {
  const auto found = workers_.find(worker_id);
  const std::shared_ptr<Worker> worker = std::move(found->second);
  workers_.erase(found);
  exits_->Add(MakeWorkerExit(worker->process->pid(), exit, reason, worker->peak_memory_bytes),
              exit.ok());
  loop_->Post([worker] {});  // this call comes from inside the process object
  if (worker->entry != nullptr) {
    Entry& entry = *worker->entry;
    // The next worker begins from the start of an empty file; the offset is shared with the dead
    // one.
    const bool emptied = ftruncate(entry.job.fd, 0) == 0 && lseek(entry.job.fd, 0, SEEK_SET) == 0;
    if (++entry.deaths >= kMaxDeaths || !emptied) {
      const std::unique_ptr<Entry> dead = std::move(worker->entry);
      dead->job.on_done(
          MakeError(absl::StatusCode::kAborted, reason::kWorkerCrashLoop,
                    absl::StrCat("indexing ", dead->job.request.file().name(), " ended ",
                                 dead->deaths, " workers; the last one: ", reason),
                    {{"file", dead->job.request.file().name()}}));
    } else {
      queue_.push_front(std::move(worker->entry));
    }
  }
  // A program that cannot even start would be started for ever.
  if (!worker->greeted && ++early_exits_ >= kMaxDeaths) {
    early_exits_ = 0;
    FailQueue(
        MakeError(absl::StatusCode::kAborted, reason::kWorkerCrashLoop,
                  absl::StrCat("index workers end before they are ready; the last one: ", reason)));
    return;
  }
  StartWorkers();
}

void IndexJobs::AppendStatus(v1::GetStatusResponse& response) {
  for (const auto& [id, worker] : workers_) {
    v1::WorkerStatus& status = *response.add_workers();
    status.set_role("index");
    status.set_threads(1);
    FillWorkerProcess(*worker->process, worker->entry == nullptr ? 0 : 1, worker->peak_memory_bytes,
                      status);
    response.set_cpu_seconds(response.cpu_seconds() + status.usage().cpu_seconds());
  }
}

}  // namespace bulkhead
