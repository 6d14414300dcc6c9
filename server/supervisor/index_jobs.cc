#include "server/supervisor/index_jobs.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/arena/worker_error.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/os/memory/process_memory.h"
#include "server/supervisor/worker/worker_usage.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kMemoryRetry = absl::Milliseconds(2);

}  // namespace

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
  std::erase_if(queue_, [&](const auto& entry) { return entry->id == job_id; });
  for (const auto& [id, worker] : workers_) {
    if (worker->entry == nullptr || worker->entry->id != job_id) continue;
    worker->entry.reset();
    worker->process->Kill(v1::EXIT_CAUSE_TOLD, "its job was cancelled");
  }
}

void IndexJobs::StartWorkers() {
  if (start_timer_ != 0) return;
  size_t idle = 0;
  size_t living = 0;  // without killed ones, which may take long to exit
  for (const auto& [id, worker] : workers_) {
    const WorkerPhase phase = worker->process->phase();
    if (phase < WorkerPhase::kKilled) ++living;
    if (phase < WorkerPhase::kStopping && worker->entry == nullptr) ++idle;
  }
  if (!queue_.empty() && workers_.size() - living >= size_t{kMaxStuck} * config_.max_workers) {
    FailQueue(MakeError(absl::StatusCode::kUnavailable, reason::kWorkerStuck,
                        "too many index workers were killed but do not exit; the storage that they "
                        "read seems to hang"));
    return;
  }
  if (queue_.empty()) config_.gate->Leave(this);  // frees the gate for others
  for (; queue_.size() > idle && living < config_.max_workers; ++idle, ++living) {
    bool in_gate = false;
    absl::StatusOr<MemoryClaim> memory = Claim(living, in_gate);
    if (absl::IsUnavailable(memory.status())) {
      StartLater(kMemoryRetry);
      return;
    }
    if (!memory.ok()) {
      // The living workers will finish the queue.
      if (living == 0) FailQueue(memory.status());
      return;
    }
    if (!StartWorker(*std::move(memory), in_gate)) return;
  }
}

absl::StatusOr<MemoryClaim> IndexJobs::Claim(size_t living, bool& in_gate) {
  absl::StatusOr<MemoryClaim> memory = config_.claim(/*end_idle=*/false);
  if (!memory.ok() && living == 0 && config_.fits_gate && config_.gate->TryEnter(this)) {
    in_gate = true;
    return MemoryClaim();
  }
  if (!memory.ok()) memory = config_.claim(/*end_idle=*/true);
  if (memory.ok()) {
    config_.gate->Leave(this);
  } else if (living == 0 && config_.fits_gate && !config_.gate->stuck()) {
    return absl::UnavailableError("an index worker waits for the replacement under way");
  }
  return memory;
}

bool IndexJobs::StartWorker(MemoryClaim memory, bool in_gate) {
  auto worker = std::make_unique<Worker>();
  Worker* const raw = worker.get();
  raw->id = next_id_++;
  raw->memory = std::move(memory);
  raw->last_progress_ns = MonotonicNanos();
  WorkerProcess::Callbacks callbacks;
  callbacks.on_message = [this, raw](const internal::v1::FromWorker& message) {
    OnMessage(*raw, message);
  };
  callbacks.on_exit = [this, id = raw->id](const WorkerEnd& end) { OnExit(id, end); };
  callbacks.on_orphan_exit = [exits = config_.exits](const ProcessExit& exit) {
    exits->AddOrphan(exit.cpu_seconds);
  };
  auto process = WorkerProcess::Start(*config_.loop, config_.worker_program, std::move(callbacks));
  if (!process.ok()) {
    if (in_gate) config_.gate->Leave(this);
    NoteEarlyExit(
        absl::StatusCode::kUnavailable,
        absl::StrCat("no worker could be started: ", std::string(process.status().message())));
    return false;
  }
  if (in_gate) config_.gate->PassTo(raw, this);
  raw->process = *std::move(process);
  workers_[raw->id] = std::move(worker);
  return true;
}

void IndexJobs::NoteEarlyExit(absl::StatusCode code, const std::string& message) {
  // Bounds the restarts of a program that cannot even start.
  if (++early_exits_ >= kMaxDeaths) {
    early_exits_ = 0;
    FailQueue(MakeError(code, reason::kWorkerCrashLoop, message));
    return;
  }
  StartLater(config_.timeouts.Backoff(early_exits_ + 1));
}

void IndexJobs::StartLater(absl::Duration delay) {
  if (start_timer_ != 0) return;
  start_timer_ = config_.loop->After(delay, [this] {
    start_timer_ = 0;
    StartWorkers();
  });
}

void IndexJobs::GiveJob(Worker& worker) {
  const bool makes_way = config_.gate->holds(&worker) && config_.gate->waiting() > 0;
  const auto next = makes_way ? queue_.end() : NextFor(worker);
  if (next == queue_.end()) {
    End(worker);
    return;
  }
  if (!Confine(worker, (*next)->job.request.quota_bytes())) return;
  worker.entry = std::move(*next);
  queue_.erase(next);
  worker.opening = worker.entry->job.opening;
  ++worker.files;
  worker.last_progress_ns = MonotonicNanos();
  worker.records = 0;
  worker.bytes_done = 0;
  internal::v1::ToWorker message;
  *message.mutable_build_index() = worker.entry->job.request;
  worker.process->Send(message, {worker.entry->job.fd});
}

std::deque<std::unique_ptr<IndexJobs::Entry>>::iterator IndexJobs::NextFor(const Worker& worker) {
  if (worker.files == 0) return queue_.begin();
  const auto is_its = [&](const auto& entry) { return entry->job.opening == worker.opening; };
  const auto waiting = std::ranges::count_if(queue_, is_its);
  if (worker.files >= kMostFiles || waiting <= kFewFiles) return queue_.end();
  return std::ranges::find_if(queue_, is_its);
}

bool IndexJobs::Confine(Worker& worker, uint64_t quota_bytes) {
  if (worker.cell != nullptr || quota_bytes == 0) return true;
  auto cell = config_.compartment->Admit(worker.process->pid(), quota_bytes, /*threads=*/1);
  if (!cell.ok()) {
    const std::string message(cell.status().message());
    worker.process->Kill(v1::EXIT_CAUSE_TOLD, message);
    FailQueue(MakeError(absl::StatusCode::kUnavailable, reason::kWorkerCrashLoop, message));
    return false;
  }
  worker.cell = *std::move(cell);
  return true;
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
    OnProgress(worker, message.index_progress());
  } else if (message.has_index_done() && at_job(message.index_done().job_id())) {
    Finish(worker, message.index_done().records());
  } else if (message.has_failed() && at_job(message.failed().job_id())) {
    Finish(worker, StatusFromWorkerError(message.failed().error()));
  }
}

void IndexJobs::OnProgress(Worker& worker, const internal::v1::IndexProgress& progress) {
  if (progress.records() > worker.records || progress.bytes_done() > worker.bytes_done) {
    worker.last_progress_ns = MonotonicNanos();
  }
  worker.records = std::max(worker.records, progress.records());
  worker.bytes_done = std::max(worker.bytes_done, progress.bytes_done());
  worker.entry->job.on_progress(worker.records, worker.bytes_done);
}

void IndexJobs::CheckForHangs() {
  const int64_t now_ns = MonotonicNanos();
  std::vector<Worker*> workers;  // copied: ending a job may start other workers
  for (const auto& [id, worker] : workers_) workers.push_back(worker.get());
  for (Worker* worker : workers) {
    CheckForHang(*worker, now_ns);
    NoteStuck(*worker, now_ns);
    SamplePeak(worker->process->pid(), worker->peak_memory_bytes);
    CheckMemory(*worker);
  }
  hang_timer_ = config_.loop->After(config_.timeouts.CheckInterval(), [this] { CheckForHangs(); });
}

void IndexJobs::CheckMemory(Worker& worker) {
  if (worker.entry == nullptr) return;
  const uint64_t quota_bytes = worker.entry->job.request.quota_bytes();
  if (quota_bytes == 0 || worker.peak_memory_bytes <= quota_bytes) return;
  worker.process->Kill(v1::EXIT_CAUSE_WATCHDOG,
                       absl::StrCat("it held ", FormatBytes(worker.peak_memory_bytes),
                                    ", more than its quota of ", FormatBytes(quota_bytes)));
}

void IndexJobs::CheckForHang(Worker& worker, int64_t now_ns) {
  if (worker.process->phase() >= WorkerPhase::kStopping) return;
  const absl::Duration quiet = absl::Nanoseconds(now_ns - worker.last_progress_ns);
  if (!worker.greeted && quiet > config_.timeouts.start) {
    worker.process->Kill(
        v1::EXIT_CAUSE_HUNG,
        absl::StrCat("not ready after ", absl::FormatDuration(config_.timeouts.start)));
    StartWorkers();
    return;
  }
  if (worker.entry == nullptr || quiet <= config_.timeouts.hang) return;
  const bool stopped = IsStopped(worker.process->pid());
  worker.process->Kill(v1::EXIT_CAUSE_HUNG,
                       absl::StrCat(stopped ? "stopped by a signal; " : "", "no progress for ",
                                    absl::FormatDuration(config_.timeouts.hang)));
  // A stopped process exits at once, so its job is retried then. Any other may take arbitrarily
  // long, and might write to the file while the next worker does.
  if (!stopped) FailHungJob(worker);
}

void IndexJobs::FailHungJob(Worker& worker) {
  const std::unique_ptr<Entry> entry = std::move(worker.entry);
  StartWorkers();
  const std::string& file = entry->job.request.file().name();
  entry->job.on_done(
      MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                absl::StrCat("indexing ", Printable(file), ": nothing could be read for ",
                             absl::FormatDuration(config_.timeouts.hang), " behind ",
                             worker.records, " records (byte ", worker.bytes_done,
                             "); its storage may hang. Open the stream again when it answers"),
                {{"file", file}, {"offset", absl::StrCat(worker.bytes_done)}}));
}

void IndexJobs::NoteStuck(Worker& worker, int64_t now_ns) {
  if (worker.process->phase() != WorkerPhase::kKilled) return;
  if (worker.killed_ns == 0) worker.killed_ns = now_ns;
  if (absl::Nanoseconds(now_ns - worker.killed_ns) < config_.timeouts.reap) return;
  config_.gate->NoteStuck(&worker);
  if (worker.entry != nullptr) FailHungJob(worker);
}

void IndexJobs::FailQueue(const absl::Status& status) {
  for (auto queue = std::move(queue_); const auto& entry : queue) entry->job.on_done(status);
  queue_.clear();
  config_.gate->Leave(this);  // replacements may use the gate again
}

void IndexJobs::Finish(Worker& worker, absl::StatusOr<uint64_t> result) {
  const std::unique_ptr<Entry> entry = std::move(worker.entry);
  if (result.ok()) {
    GiveJob(worker);
  } else {
    End(worker);  // whatever the file did to it
  }
  StartWorkers();
  entry->job.on_done(std::move(result));
}

void IndexJobs::OnExit(uint64_t worker_id, const WorkerEnd& told_end) {
  WorkerEnd end = told_end;
  const auto found = workers_.find(worker_id);
  const std::shared_ptr<Worker> worker = std::move(found->second);
  workers_.erase(found);
  if (end.cause == v1::EXIT_CAUSE_KILLED && worker->cell != nullptr &&
      worker->cell->OomKills() > 0) {
    end.cause = v1::EXIT_CAUSE_CGROUP;
    end.reason += ": it met the limit of its cgroup";
  }
  v1::WorkerExit record = MakeWorkerExit(worker->process->pid(), end, worker->peak_memory_bytes);
  record.set_pipeline("index");
  config_.exits->Add(std::move(record), end.as_told);
  if (!end.as_told) {
    spdlog::warn(
        "index worker {} at {}: {}", worker->process->pid(),
        worker->entry == nullptr ? "nothing" : Printable(worker->entry->job.request.file().name()),
        end.reason);
  }
  config_.gate->Leave(worker.get());
  config_.loop->Post([worker] {});  // deferred: this call comes from inside the process object
  if (worker->entry != nullptr) {
    Entry& entry = *worker->entry;
    if (++entry.deaths >= kMaxDeaths) {
      const std::unique_ptr<Entry> dead = std::move(worker->entry);
      dead->job.on_done(
          MakeError(absl::StatusCode::kAborted, reason::kWorkerCrashLoop,
                    absl::StrCat("indexing ", Printable(dead->job.request.file().name()), " ended ",
                                 dead->deaths, " workers; the last one: ", end.reason),
                    {{"file", dead->job.request.file().name()}}));
    } else {
      queue_.push_front(std::move(worker->entry));
    }
  }
  if (!worker->greeted) {
    NoteEarlyExit(
        absl::StatusCode::kAborted,
        absl::StrCat("index workers end before they are ready; the last one: ", end.reason));
  }
  StartWorkers();
}

void IndexJobs::AppendStatus(v1::GetStatusResponse& response) const {
  for (const auto& [id, worker] : workers_) {
    v1::WorkerStatus& status = *response.add_workers();
    status.set_role("index");
    status.set_threads(1);
    status.set_leases(worker->entry == nullptr ? 0 : 1);
    DescribeProcess(*worker->process, worker->peak_memory_bytes, status);
  }
}

}  // namespace bulkhead
