#include "server/supervisor/worker_pool.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/arena/worker_error.h"
#include "server/base/error.h"
#include "server/os/process_usage.h"
#include "server/supervisor/worker_usage.h"

namespace bulkhead {
namespace {

// Ids of worker processes; unique over all pools, so that the word of a dead one can never be taken
// for another's.
LeaseTable::WorkerId NextWorkerId() {
  static LeaseTable::WorkerId next = 1;
  return next++;
}

// Leases that a worker may hold: what its threads work on, and as many waiting so that none runs
// dry while a message travels.
uint32_t Capacity(const PipelineConfig& config) { return 2 * config.threads; }

}  // namespace

WorkerPool::WorkerPool(std::shared_ptr<EventLoop> loop, std::string worker_program,
                       PipelineConfig config, PoolTimeouts timeouts, ExitLog* exits)
    : loop_(std::move(loop)),
      worker_program_(std::move(worker_program)),
      config_(std::move(config)),
      timeouts_(timeouts),
      exits_(exits) {}

WorkerPool::~WorkerPool() {
  loop_->Cancel(hang_timer_);
  for (const auto& slot : slots_) loop_->Cancel(slot->restart_timer);
}

void WorkerPool::Start() {
  for (uint32_t index = 0; index < config_.workers; ++index) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->index = index;
    StartWorker(*slots_.back());
  }
  CheckForHangs();
}

void WorkerPool::StartWorker(Slot& slot) {
  if (broken()) return;
  slot.restart_timer = 0;
  ++slot.generation;
  slot.worker_id = NextWorkerId();
  slot.bound = false;
  slot.leases = 0;
  slot.samples = 0;
  slot.peak_memory_bytes = 0;
  slot.last_progress_ns = MonotonicNanos();
  slot.killed_ns = 0;
  slot.written_off = false;
  WorkerProcess::Callbacks callbacks;
  callbacks.on_message = [this, &slot](const internal::v1::FromWorker& message) {
    OnMessage(slot, message);
  };
  callbacks.on_exit = [this, &slot](const ProcessExit& exit, const std::string& reason) {
    OnExit(slot, exit, reason);
  };
  auto process = WorkerProcess::Start(*loop_, worker_program_, std::move(callbacks));
  if (!process.ok()) {
    FailAll(MakeError(
        absl::StatusCode::kUnavailable, reason::kWorkerCrashLoop,
        absl::StrCat("no worker could be started: ", std::string(process.status().message()))));
    return;
  }
  slot.process = *std::move(process);
  SendBinding(slot);
}

void WorkerPool::SendBinding(Slot& slot) {
  const auto memory = CreateSealedMessage(config_.binding);
  if (!memory.ok()) {
    FailAll(memory.status());
    return;
  }
  internal::v1::ToWorker message;
  message.mutable_bind()->set_threads(config_.threads);
  message.mutable_bind()->set_quota_bytes(config_.quota_bytes);
  slot.process->Send(message, {memory->get()});
}

void WorkerPool::SendStream(Slot& slot, const Stream& stream) {
  internal::v1::ToWorker message;
  *message.mutable_add_stream()->mutable_stream() = stream.config().binding;
  message.mutable_add_stream()->mutable_stream()->set_stream_id(stream.id());
  slot.process->Send(message, {stream.config().arena->fd()});
}

void WorkerPool::AddStream(std::shared_ptr<Stream> stream) {
  if (broken()) {
    stream->Fail(failure_);
    return;
  }
  streams_.push_back(stream);
  for (const auto& slot : slots_) {
    if (slot->bound) SendStream(*slot, *stream);
  }
  stream->BeginBatches();
  Dispatch();
}

bool WorkerPool::RemoveStream(uint64_t stream_id) {
  const auto found = std::find_if(
      streams_.begin(), streams_.end(),
      [&](const std::shared_ptr<Stream>& stream) { return stream->id() == stream_id; });
  if (found == streams_.end()) return false;
  (*found)->Close();
  streams_.erase(found);
  internal::v1::ToWorker message;
  message.mutable_remove_stream()->set_stream_id(stream_id);
  for (const auto& slot : slots_) {
    if (slot->bound) slot->process->Send(message);
  }
  return true;
}

std::shared_ptr<Stream> WorkerPool::FindStream(uint64_t stream_id) const {
  for (const auto& stream : streams_) {
    if (stream->id() == stream_id) return stream;
  }
  return nullptr;
}

void WorkerPool::Dispatch() {
  while (!broken()) {
    Slot* best = nullptr;
    for (const auto& slot : slots_) {
      if (!slot->bound || slot->process->phase() != WorkerPhase::kReady) continue;
      if (slot->leases >= Capacity(config_)) continue;
      if (best == nullptr || slot->leases < best->leases) best = slot.get();
    }
    if (best == nullptr || !GiveLease(*best)) return;
  }
}

bool WorkerPool::GiveLease(Slot& slot) {
  for (size_t tried = 0; tried < streams_.size(); ++tried) {
    Stream& stream = *streams_[next_stream_++ % streams_.size()];
    const auto lease = stream.Assign(slot.worker_id);
    if (!lease.has_value()) continue;
    internal::v1::ToWorker message;
    *message.mutable_lease() = *lease;
    // Waiting for work is no lack of progress.
    if (slot.leases++ == 0) slot.last_progress_ns = MonotonicNanos();
    slot.process->Send(message);
    return true;
  }
  return false;
}

void WorkerPool::OnMessage(Slot& slot, const internal::v1::FromWorker& message) {
  switch (message.message_case()) {
    case internal::v1::FromWorker::kBound:
      OnBound(slot);
      break;
    case internal::v1::FromWorker::kLeaseDone:
      OnLeaseDone(slot, message.lease_done());
      break;
    case internal::v1::FromWorker::kLeaseFailed:
      OnLeaseFailed(slot, message.lease_failed());
      break;
    case internal::v1::FromWorker::kFailed:
      if (const auto stream = FindStream(message.failed().stream_id())) {
        stream->Fail(StatusFromWorkerError(message.failed().error()));
      } else if (message.failed().stream_id() == 0) {
        FailAll(StatusFromWorkerError(message.failed().error()));
      }
      break;
    default:
      break;  // hello, stream_added, stream_removed: nothing waits for them
  }
}

void WorkerPool::OnBound(Slot& slot) {
  slot.process->MarkBound();
  slot.bound = true;
  slot.last_progress_ns = MonotonicNanos();
  for (const auto& stream : streams_) SendStream(slot, *stream);
  Dispatch();
}

void WorkerPool::NoteProgress(Slot& slot) {
  if (slot.leases > 0) --slot.leases;
  slot.last_progress_ns = MonotonicNanos();
}

void WorkerPool::OnLeaseDone(Slot& slot, const internal::v1::LeaseDone& done) {
  NoteProgress(slot);
  if (const auto stream = FindStream(done.stream_id())) {
    if (const auto samples = stream->Complete(done, slot.worker_id)) {
      deaths_ = 0;
      slot.samples += *samples;
      samples_ += *samples;
    }
  }
  Dispatch();
}

void WorkerPool::OnLeaseFailed(Slot& slot, const internal::v1::LeaseFailed& failed) {
  NoteProgress(slot);
  if (const auto stream = FindStream(failed.stream_id())) {
    stream->FailLease(failed, slot.worker_id);
  }
  Dispatch();
}

absl::Duration WorkerPool::Backoff() const {
  if (deaths_ <= 1) return absl::ZeroDuration();  // one death is an accident
  return std::min(timeouts_.first_backoff * (1 << std::min(deaths_ - 2, 20u)),
                  timeouts_.max_backoff);
}

v1::WorkerExit WorkerPool::RecordExit(const Slot& slot, const ProcessExit& exit,
                                      const std::string& reason, uint32_t leases_redone) const {
  v1::WorkerExit record = MakeWorkerExit(slot.process->pid(), exit, reason, slot.peak_memory_bytes);
  record.set_slot(slot.index);
  record.set_generation(slot.generation);
  record.set_leases_redone(leases_redone);
  return record;
}

void WorkerPool::OnExit(Slot& slot, const ProcessExit& exit, const std::string& reason) {
  std::string work;
  uint32_t redone = 0;
  for (const auto& stream : streams_) {
    if (work.empty()) work = stream->DescribeWork(slot.worker_id);
    redone += stream->WorkerGone(slot.worker_id);
  }
  leases_redone_ += redone;
  exits_->Add(RecordExit(slot, exit, reason, redone), exit.ok());
  const bool was_stopping = broken();
  slot.bound = false;
  slot.leases = 0;
  // This call comes from inside the process object, so it is deleted later.
  loop_->Post([process = std::shared_ptr<WorkerProcess>(std::move(slot.process))] {});
  if (was_stopping) return;

  ++deaths_;
  spdlog::warn("worker {} of pipeline {}: {}{}{}; {} leases are done again", slot.index,
               config_.name, reason, work.empty() ? "" : " at ", work, redone);
  if (deaths_ >= kMaxDeaths) {
    FailAll(CrashLoop(reason, work));
    return;
  }
  slot.restart_timer = loop_->After(Backoff(), [this, &slot] { StartWorker(slot); });
  Dispatch();
}

absl::Status WorkerPool::CrashLoop(const std::string& reason, const std::string& work) const {
  return MakeError(
      absl::StatusCode::kAborted, reason::kWorkerCrashLoop,
      absl::StrCat(deaths_, " workers ended without finishing anything; the last one: ", reason,
                   work.empty() ? ", before it had anything to do" : absl::StrCat(", at ", work),
                   ". If memory ran out, raise --worker-quota (now ", config_.quota_bytes >> 20,
                   " MiB) or lower decode_image.max_pixels"),
      {{"work", work}, {"cause", reason}});
}

void WorkerPool::FailAll(const absl::Status& status) {
  if (broken()) return;
  failure_ = status;
  FailStreams(status);
  for (const auto& slot : slots_) {
    loop_->Cancel(slot->restart_timer);
    if (slot->process != nullptr) slot->process->Stop(timeouts_.stop_grace);
  }
}

void WorkerPool::FailStreams(const absl::Status& status) {
  for (const auto& stream : streams_) stream->Fail(status);
}

void WorkerPool::CheckForHangs() {
  const int64_t now_ns = MonotonicNanos();
  for (const auto& slot : slots_) {
    if (slot->process != nullptr) CheckForHang(*slot, now_ns);
  }
  hang_timer_ =
      loop_->After(std::min(timeouts_.hang, timeouts_.reap) / 4, [this] { CheckForHangs(); });
}

void WorkerPool::CheckForHang(Slot& slot, int64_t now_ns) {
  if (slot.killed_ns != 0) {
    if (slot.written_off || absl::Nanoseconds(now_ns - slot.killed_ns) < timeouts_.reap) return;
    slot.written_off = true;
    for (const auto& stream : streams_) stream->WriteOff(slot.worker_id);
    Dispatch();
    return;
  }
  const absl::Duration quiet = absl::Nanoseconds(now_ns - slot.last_progress_ns);
  const bool late = !slot.bound && quiet > timeouts_.start;
  const bool hangs = slot.leases > 0 && quiet > timeouts_.hang;
  if (!late && !hangs) return;
  slot.killed_ns = now_ns;
  slot.process->Kill(late ? absl::StrCat("not ready after ", absl::FormatDuration(timeouts_.start))
                          : absl::StrCat("no progress for ", absl::FormatDuration(timeouts_.hang)));
}

void WorkerPool::AppendStatus(v1::GetStatusResponse& response) {
  for (const auto& slot : slots_) {
    v1::WorkerStatus& status = *response.add_workers();
    status.set_slot(slot->index);
    status.set_generation(slot->generation);
    status.set_role("pipeline");
    status.set_pipeline(config_.name);
    status.set_threads(config_.threads);
    status.set_quota_bytes(config_.quota_bytes);
    status.set_quota_level("rlimit-data");
    status.set_leases(slot->leases);
    status.set_samples(slot->samples);
    if (slot->process == nullptr) {
      status.set_state(v1::WORKER_STATE_BACKOFF);
      continue;
    }
    FillWorkerProcess(*slot->process, slot->leases, slot->peak_memory_bytes, status);
    response.set_cpu_seconds(response.cpu_seconds() + status.usage().cpu_seconds());
  }
  for (const auto& stream : streams_) {
    v1::StreamStatus& status = *response.add_streams();
    status = stream->Status();
    status.set_pipeline(config_.name);
    response.set_samples_substituted(response.samples_substituted() + stream->substitutions());
  }
  response.set_samples_produced(response.samples_produced() + samples_);
  response.set_leases_redone(response.leases_redone() + leases_redone_);
}

}  // namespace bulkhead
