#include "server/supervisor/worker_pool.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/arena/worker_error.h"
#include "server/base/error.h"
#include "server/os/memory_map.h"
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
  slot.held.clear();
  slot.leases_given = 0;
  slot.samples = 0;
  slot.peak_memory_bytes = 0;
  slot.last_progress_ns = MonotonicNanos();
  slot.killed_ns = 0;
  slot.written_off = false;
  WorkerProcess::Callbacks callbacks;
  callbacks.on_message = [this, &slot](const internal::v1::FromWorker& message) {
    OnMessage(slot, message);
  };
  callbacks.on_exit = [this, &slot](const WorkerEnd& end) { OnExit(slot, end); };
  callbacks.on_orphan_exit = [exits = exits_](const ProcessExit& exit) {
    exits->AddCpu(exit.cpu_seconds);
  };
  auto process = WorkerProcess::Start(*loop_, worker_program_, std::move(callbacks));
  if (!process.ok()) {
    OnStartFailed(slot, process.status());
    return;
  }
  slot.process = *std::move(process);
  SendBinding(slot);
}

// No process, no descriptor: may pass, so it is a death like any other.
void WorkerPool::OnStartFailed(Slot& slot, const absl::Status& status) {
  const std::string message(status.message());
  spdlog::warn("no worker {} of pipeline {} could be started: {}", slot.index, config_.name,
               message);
  ++slot.deaths;
  NoteIdleDeath(slot, absl::StatusCode::kUnavailable,
                absl::StrCat("no worker could be started: ", message));
  RestartLater(slot);
}

void WorkerPool::SendBinding(Slot& slot) {
  const auto memory = CreateSealedMessage(config_.binding);
  if (!memory.ok()) {
    slot.process->Kill(
        absl::StrCat("it could not be bound: ", std::string(memory.status().message())));
    return;
  }
  internal::v1::ToWorker message;
  message.mutable_bind()->set_threads(config_.threads);
  message.mutable_bind()->set_quota_bytes(config_.quota_bytes);
  *message.mutable_bind()->mutable_sandbox() = config_.sandbox;
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
  past_substitutions_ += (*found)->substitutions();
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

bool WorkerPool::CanTakeLease(const Slot& slot) const {
  return slot.bound && slot.process->phase() == WorkerPhase::kReady &&
         slot.held.size() < Capacity(config_);
}

void WorkerPool::Dispatch() {
  GiveSuspect();
  while (!broken()) {
    Slot* best = nullptr;
    for (const auto& slot : slots_) {
      if (!CanTakeLease(*slot) || slot.get() == set_apart_) continue;
      if (best == nullptr || slot->held.size() < best->held.size()) best = slot.get();
    }
    if (best == nullptr || !GiveLease(*best)) return;
  }
}

bool WorkerPool::GiveLease(Slot& slot) {
  for (size_t tried = 0; tried < streams_.size(); ++tried) {
    Stream& stream = *streams_[next_stream_++ % streams_.size()];
    const auto lease = stream.Assign(slot.worker_id);
    if (!lease.has_value()) continue;
    SendLease(slot, *lease);
    return true;
  }
  return false;
}

WorkerPool::Slot* WorkerPool::SlotToSetApart() const {
  const auto suspects = [](const auto& stream) { return stream->has_suspect(); };
  if (std::none_of(streams_.begin(), streams_.end(), suspects)) return nullptr;
  // A fresh process if there is one; else the one that is done soonest, whose successor will be.
  const auto rank = [](const Slot& slot) {
    return std::make_pair(slot.leases_given > 0, slot.held.size());
  };
  Slot* best = nullptr;
  for (const auto& slot : slots_) {
    if (!slot->bound || slot->process->phase() != WorkerPhase::kReady) continue;
    if (best == nullptr || rank(*slot) < rank(*best)) best = slot.get();
  }
  return best;
}

void WorkerPool::GiveSuspect() {
  if (set_apart_ == nullptr) set_apart_ = SlotToSetApart();
  if (set_apart_ == nullptr || !set_apart_->held.empty() || !CanTakeLease(*set_apart_)) return;
  for (size_t tried = 0; tried < streams_.size(); ++tried) {
    Stream& stream = *streams_[next_stream_++ % streams_.size()];
    const auto lease = stream.AssignSuspect(set_apart_->worker_id);
    if (!lease.has_value()) continue;
    SendLease(*set_apart_, *lease);
    return;
  }
  set_apart_ = nullptr;
}

void WorkerPool::SendLease(Slot& slot, const internal::v1::Lease& lease) {
  internal::v1::ToWorker message;
  *message.mutable_lease() = lease;
  // Waiting for work is no lack of progress.
  if (slot.held.empty()) slot.last_progress_ns = MonotonicNanos();
  slot.held.push_back({lease.stream_id(), lease.lease_id()});
  ++slot.leases_given;
  slot.process->Send(message);
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
    case internal::v1::FromWorker::kLeaseProgress:
      if (!slot.held.empty()) slot.last_progress_ns = MonotonicNanos();
      break;
    case internal::v1::FromWorker::kFailed:
      OnFailed(slot, message.failed());
      break;
    default:
      break;  // hello, stream_added, stream_removed: nothing waits for them
  }
}

void WorkerPool::OnBound(Slot& slot) {
  if (!slot.process->MarkBound()) return;
  slot.bound = true;
  slot.last_progress_ns = MonotonicNanos();
  for (const auto& stream : streams_) SendStream(slot, *stream);
  Dispatch();
}

void WorkerPool::OnFailed(Slot& slot, const internal::v1::Failed& failed) {
  if (const auto stream = FindStream(failed.stream_id())) {
    stream->Fail(StatusFromWorkerError(failed.error()));
  } else if (failed.stream_id() == 0 && !slot.bound) {
    FailAll(StatusFromWorkerError(failed.error()));
  }
}

bool WorkerPool::TakeBack(Slot& slot, uint64_t stream_id, uint64_t lease_id) {
  const auto found = std::find_if(slot.held.begin(), slot.held.end(), [&](const Held& held) {
    return held.stream_id == stream_id && held.lease_id == lease_id;
  });
  if (found == slot.held.end()) return false;
  slot.held.erase(found);
  slot.last_progress_ns = MonotonicNanos();
  slot.deaths = 0;
  if (&slot == set_apart_ && slot.held.empty()) set_apart_ = nullptr;
  return true;
}

void WorkerPool::OnLeaseDone(Slot& slot, const internal::v1::LeaseDone& done) {
  if (!TakeBack(slot, done.stream_id(), done.lease_id())) return;
  if (const auto stream = FindStream(done.stream_id())) {
    if (const auto samples = stream->Complete(done, slot.worker_id)) {
      idle_deaths_ = 0;
      slot.samples += *samples;
      samples_ += *samples;
    }
  }
  Dispatch();
}

void WorkerPool::OnLeaseFailed(Slot& slot, const internal::v1::LeaseFailed& failed) {
  if (!TakeBack(slot, failed.stream_id(), failed.lease_id())) return;
  if (const auto stream = FindStream(failed.stream_id())) {
    stream->FailLease(failed, slot.worker_id);
  }
  Dispatch();
}

std::string WorkerPool::BlameLeases(Slot& slot, const std::string& reason) {
  std::string at;
  for (size_t i = 0; i < slot.held.size() && i < config_.threads; ++i) {
    const auto stream = FindStream(slot.held[i].stream_id);
    if (stream == nullptr) continue;
    const bool alone = slot.leases_given == 1;
    const auto death = stream->NoteDeath(slot.held[i].lease_id, slot.worker_id, alone);
    if (!death.has_value()) continue;
    if (at.empty()) at = death->work;
    if (death->convicting + LeaseTable::kSuspectDeaths < kMaxDeaths) continue;
    stream->Fail(CrashLoop(death->deaths, reason, death->work));
  }
  return at;
}

void WorkerPool::NoteIdleDeath(const Slot& slot, absl::StatusCode code,
                               const std::string& message) {
  // One bad moment may befall all places at once: so one of them must have failed time and again.
  if (++idle_deaths_ < kMaxDeaths || slot.deaths < kMaxDeaths) return;
  // As long as one worker is ready the streams go on, if slowly.
  const bool any_ready =
      std::any_of(slots_.begin(), slots_.end(), [](const auto& other) { return other->bound; });
  if (!any_ready) FailAll(MakeError(code, reason::kWorkerCrashLoop, message));
}

void WorkerPool::RestartLater(Slot& slot) {
  if (broken()) return;
  slot.restart_timer =
      loop_->After(timeouts_.Backoff(slot.deaths), [this, &slot] { StartWorker(slot); });
}

void WorkerPool::RecordExit(const Slot& slot, const WorkerEnd& end, uint32_t leases_redone) const {
  v1::WorkerExit record = MakeWorkerExit(slot.process->pid(), end, slot.peak_memory_bytes);
  record.set_slot(slot.index);
  record.set_generation(slot.generation);
  record.set_leases_redone(leases_redone);
  exits_->Add(std::move(record), end.as_told);
}

void WorkerPool::OnExit(Slot& slot, const WorkerEnd& end) {
  const bool had_leases = !slot.held.empty();
  // Those of a worker that was written off were blamed then.
  std::string work = slot.written_off ? "" : BlameLeases(slot, end.reason);
  uint32_t redone = 0;
  for (const auto& stream : streams_) redone += stream->WorkerGone(slot.worker_id);
  leases_redone_ += redone;
  RecordExit(slot, end, redone);
  slot.bound = false;
  slot.held.clear();
  // A worker that is set apart stays so: the next one in its place is fresh.
  // This call comes from inside the process object, so it is deleted later.
  loop_->Post([process = std::shared_ptr<WorkerProcess>(std::move(slot.process))] {});
  if (broken()) return;
  spdlog::warn("worker {} of pipeline {}: {}{}{}; {} leases are done again", slot.index,
               config_.name, end.reason, work.empty() ? "" : " at ", work, redone);
  ++slot.deaths;
  if (!had_leases) {
    NoteIdleDeath(slot, absl::StatusCode::kAborted,
                  absl::StrCat("workers end before they have anything to do, ", idle_deaths_ + 1,
                               " in a row; the last one: ", end.reason));
  }
  RestartLater(slot);
  Dispatch();
}

absl::Status WorkerPool::CrashLoop(uint32_t deaths, const std::string& reason,
                                   const std::string& work) const {
  return MakeError(
      absl::StatusCode::kAborted, reason::kWorkerCrashLoop,
      absl::StrCat("the same samples ended ", deaths, " workers; the last one: ", reason, ", at ",
                   work, ". If memory ran out, raise --worker-quota (now ",
                   config_.quota_bytes >> 20, " MiB) or lower decode_image.max_pixels"),
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
    if (slot->process == nullptr) continue;
    CheckForHang(*slot, now_ns);
    SamplePeak(slot->process->pid(), slot->peak_memory_bytes);
  }
  hang_timer_ = loop_->After(timeouts_.CheckInterval(), [this] { CheckForHangs(); });
}

void WorkerPool::CheckForHang(Slot& slot, int64_t now_ns) {
  if (slot.killed_ns != 0) {
    if (slot.written_off || absl::Nanoseconds(now_ns - slot.killed_ns) < timeouts_.reap) return;
    slot.written_off = true;
    BlameLeases(slot, "it was killed for want of progress and does not end");
    for (const auto& stream : streams_) stream->WriteOff(slot.worker_id);
    // A suspect that it held goes to another.
    if (&slot == set_apart_) set_apart_ = nullptr;
    spdlog::warn("worker {} of pipeline {} (pid {}) was killed and does not end: it is written off",
                 slot.index, config_.name, slot.process->pid());
    if (std::all_of(slots_.begin(), slots_.end(), [](const auto& s) { return s->written_off; })) {
      FailAll(MakeError(absl::StatusCode::kUnavailable, reason::kWorkerStuck,
                        "every worker was killed for want of progress and does not end, so nobody "
                        "is left to work; their storage may hang"));
    }
    Dispatch();
    return;
  }
  const absl::Duration quiet = absl::Nanoseconds(now_ns - slot.last_progress_ns);
  const bool late = !slot.bound && quiet > timeouts_.start;
  const bool hangs = !slot.held.empty() && quiet > timeouts_.hang;
  if (!late && !hangs) return;
  slot.killed_ns = now_ns;
  slot.process->Kill(late ? absl::StrCat("not ready after ", absl::FormatDuration(timeouts_.start))
                          : absl::StrCat("no progress for ", absl::FormatDuration(timeouts_.hang)));
}

void WorkerPool::AppendStatus(v1::GetStatusResponse& response) const {
  for (const auto& slot : slots_) {
    v1::WorkerStatus& status = *response.add_workers();
    status.set_slot(slot->index);
    status.set_generation(slot->generation);
    status.set_role("pipeline");
    status.set_pipeline(config_.name);
    status.set_threads(config_.threads);
    status.set_quota_bytes(config_.quota_bytes);
    status.set_quota_level("rlimit-data");
    status.set_leases(static_cast<uint32_t>(slot->held.size()));
    status.set_samples(slot->samples);
    if (slot->process == nullptr) {
      status.set_state(v1::WORKER_STATE_BACKOFF);
      continue;
    }
    DescribeProcess(*slot->process, slot->peak_memory_bytes, status);
  }
  for (const auto& stream : streams_) {
    v1::StreamStatus& status = *response.add_streams();
    status = stream->Status();
    status.set_pipeline(config_.name);
  }
  AppendTotals(response);
}

void WorkerPool::AppendTotals(v1::GetStatusResponse& response) const {
  uint64_t substitutions = past_substitutions_;
  for (const auto& stream : streams_) substitutions += stream->substitutions();
  response.set_samples_substituted(response.samples_substituted() + substitutions);
  response.set_samples_produced(response.samples_produced() + samples_);
  response.set_leases_redone(response.leases_redone() + leases_redone_);
}

}  // namespace bulkhead
