#include "server/supervisor/pool/worker_pool.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/arena/code_files.h"
#include "server/arena/worker_error.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/os/memory/process_memory.h"
#include "server/os/sockets/pipe.h"
#include "server/supervisor/verdict/python_lines.h"
#include "server/supervisor/worker/python_stack.h"
#include "server/supervisor/worker/worker_usage.h"

namespace bulkhead {
namespace {

void SendStream(PoolWorker& worker, const Stream& stream) {
  if (worker.process->phase() >= WorkerPhase::kKilled) return;  // it will never map the arena
  internal::v1::ToWorker message;
  internal::v1::StreamBinding& binding = *message.mutable_add_stream()->mutable_stream();
  binding = stream.config().binding;
  binding.set_stream_id(stream.id());
  *binding.mutable_quarantined() = stream.quarantine().quarantined();
  worker.claims->mapped[stream.id()] = {stream.config().arena->bytes(), stream.config().writer};
  worker.process->Send(message, {stream.config().arena->fd()});
}

// How a worker ended, with the reports of the worker and its cell.
WorkerEnd Explain(WorkerEnd end, const PoolWorker& worker, const FlightSnapshot& flight) {
  if (end.cause == v1::EXIT_CAUSE_KILLED && worker.cell->OomKills() > 0) {
    end.cause = v1::EXIT_CAUSE_CGROUP;
    absl::StrAppend(&end.reason, ": it met the limit of its cgroup; before, it held up to ",
                    FormatBytes(worker.memory.peak_bytes()));
  }
  if (flight.wild.has_value() && end.cause == v1::EXIT_CAUSE_CRASHED) {
    end.reason += ": " + DescribeWildAccess(*flight.wild);
  }
  if (end.cause == v1::EXIT_CAUSE_CRASHED && worker.stacks_fd) {
    std::string dump;
    ReadAvailable(worker.stacks_fd.get(), kMaxStacksBytes, dump);
    const std::string at = DescribeCrashedStack(dump);
    if (!at.empty()) absl::StrAppend(&end.reason, " (Python was at ", at, ")");
  }
  return end;
}

}  // namespace

WorkerPool::WorkerPool(PoolContext context, PipelineConfig config)
    : context_(std::move(context)),
      config_(std::move(config)),
      code_([this](const v1::CodeFile& file) {
        for (const auto& stream : streams_.all()) stream->NoteCode(file.name(), file.digest());
      }),
      segments_(part_),
      memory_watch_(part_),
      starter_(part_, memory_watch_,
               {[this](PoolWorker& worker, const auto& message) { OnMessage(worker, message); },
                [this](PoolWorker& worker, const WorkerEnd& end) { OnExit(worker, end); }}),
      dispatcher_(part_),
      blame_(part_),
      progress_watch_(part_),
      replacement_(part_, dispatcher_, [this](Slot& slot) { return starter_.Start(slot); }),
      tuning_(part_, dispatcher_, [this](Slot& slot) { StartWorker(slot); }),
      report_(part_),
      verdict_(part_),
      share_groups_({context_.loop, context_.copier, context_.budget, context_.share_window,
                     config_.name, context_.new_stream_id, [this] { Dispatch(); },
                     [this](std::shared_ptr<Stream> stream) { AddStream(std::move(stream)); },
                     [this](uint64_t stream_id) { RemoveStream(stream_id); },
                     [this](const internal::v1::ToWorker& message) { crew_.Send(message); },
                     context_.make_room}) {
  crew_.Resize(config_.workers);
  for (const auto& slot : crew_.slots()) StartWorker(*slot);
  ScheduleWatch(/*soon=*/!config_.user_code.empty());
}

WorkerPool::~WorkerPool() {
  code_.Fail(absl::CancelledError("the service ends"));
  context_.loop->Cancel(watch_timer_);
  for (const auto& slot : crew_.slots()) context_.loop->Cancel(slot->restart_timer);
}

void WorkerPool::AddStream(std::shared_ptr<Stream> stream) {
  if (broken()) {
    stream->Fail(failure_);
    return;
  }
  streams_.Add(stream);
  stream->config().observer->OnAdded();
  streams_.TellEarly(*stream);
  crew_.ForEach([&](PoolWorker& worker) {
    worker.cpu_seconds_at_rest = -1;
    if (worker.bound) SendStream(worker, *stream);
  });
  if (stream->config().binding.reads_again()) segments_.SetWrites(true);
  segments_.Tell();
  for (const auto& [name, digest] : code_.digests()) stream->NoteCode(name, digest);
  share_groups_.Join(stream);
  stream->BeginBatches();
  Dispatch();
}

bool WorkerPool::RemoveStream(uint64_t stream_id) {
  if (!streams_.Remove(stream_id)) return false;
  blame_.Forget(stream_id);
  share_groups_.Leave(stream_id);
  segments_.SetWrites(streams_.reads_again());
  internal::v1::ToWorker message;
  message.mutable_remove_stream()->set_stream_id(stream_id);
  crew_.Send(message);
  return true;
}

void WorkerPool::Dispatch() {
  if (parked()) {
    if (streams_.has_work()) context_.on_wanted(this);
    return;
  }
  if (broken()) return;
  dispatcher_.AskForInputs();
  if (dispatcher_.GiveLeases()) ScheduleWatch(/*soon=*/true);
}

uint32_t WorkerPool::Recycle(std::optional<uint32_t> slot) {
  uint32_t count = 0;
  for (const auto& place : crew_.slots()) {
    if (broken() || place->leaves || (slot.has_value() && *slot != place->index)) continue;
    place->asked = true;
    ++count;
  }
  if (count > 0) replacement_.BeginIfDue(MonotonicNanos());
  ScheduleWatch(/*soon=*/true);
  return count;
}

void WorkerPool::StartWorker(Slot& slot) {
  if (broken() || parked_) return;
  slot.restart_timer = 0;
  auto worker = starter_.Start(slot);
  if (worker.ok()) {
    slot.Install(*std::move(worker));
    return;
  }
  // A lack of processes or descriptors may pass, so it counts as a death.
  const std::string message(worker.status().message());
  spdlog::warn("no worker {} of pipeline {} could be started: {}", slot.index, config_.name,
               message);
  ++slot.failed_starts;
  slot.last_end = absl::StrCat("none could be started: ", message);
  RestartLater(slot, MakeError(absl::StatusCode::kUnavailable, reason::kWorkerCrashLoop,
                               absl::StrCat("no worker could be started: ", message)));
  Dispatch();  // another worker gets its suspect
}

void WorkerPool::RestartLater(Slot& slot, const absl::Status& idle) {
  ++slot.deaths;
  if (!idle.ok() && blame_.OnIdleDeath(slot)) FailAll(idle);
  if (broken()) return;
  slot.restart_timer = context_.loop->After(context_.timeouts.Backoff(slot.deaths),
                                            [this, &slot] { StartWorker(slot); });
}

void WorkerPool::OnMessage(PoolWorker& worker, const internal::v1::FromWorker& message) {
  switch (message.message_case()) {
    case internal::v1::FromWorker::kHello:
      worker.hello_ns = MonotonicNanos();
      return;
    case internal::v1::FromWorker::kBound:
      OnBound(worker, message.bound());
      return;
    case internal::v1::FromWorker::kWarmedUp:
      replacement_.OnWarmedUp(worker, message.warmed_up());
      break;
    case internal::v1::FromWorker::kLeaseDone:
      if (const auto samples = dispatcher_.OnDone(worker, message.lease_done())) {
        blame_.OnProgress();
        worker.samples += *samples;
        report_.OnSamples(*samples);
      }
      if (const int64_t now_ns = MonotonicNanos(); memory_watch_.IsYoung(worker, now_ns) ||
                                                   dispatcher_.WaitsForLook(worker) ||
                                                   dispatcher_.HasNoRoom(worker)) {
        memory_watch_.Look(worker, crew_.SlotOf(worker), now_ns);
        if (!broken()) replacement_.BeginIfDue(now_ns);
      }
      break;
    case internal::v1::FromWorker::kLeaseFailed:
      FailAll(dispatcher_.OnFailed(worker, message.lease_failed()));
      break;
    case internal::v1::FromWorker::kLeaseProgress:
      if (!worker.held.empty()) worker.last_progress_ns = MonotonicNanos();
      return;
    case internal::v1::FromWorker::kStreamRemoved:
      worker.claims->mapped.erase(message.stream_removed().stream_id());
      return;
    case internal::v1::FromWorker::kSurveyed:
      if (const auto stream = streams_.Find(message.surveyed().stream_id());
          stream != nullptr && stream->inputs() != nullptr && !stream->finished()) {
        stream->inputs()->OnSurveyed(message.surveyed());
      }
      return;
    case internal::v1::FromWorker::kSegmentFull:
      segments_.OnFull(worker, message.segment_full().kind());
      return;
    case internal::v1::FromWorker::kCodeLoaded:
      if (!broken()) FailAll(code_.Note(message.code_loaded().code()));
      if (broken()) return;
      worker.NoteCode(message.code_loaded().code());
      if (worker.bound) {
        segments_.SetCode(code_.files());
        segments_.OnCode(worker);
        segments_.Tell();
      }
      return;
    case internal::v1::FromWorker::kPythonGrowth:
      worker.python_growth = CheckGrowth(message.python_growth());
      return;
    case internal::v1::FromWorker::kNote: {
      const uint64_t stream = worker.held.empty() ? 0 : worker.held.front().stream_id;
      if (worker.notes.Take(MonotonicNanos())) {
        streams_.Tell(stream, message.note());
      } else {
        streams_.CountLeftOut(stream);
      }
      return;
    }
    case internal::v1::FromWorker::kFailed:
      OnFailed(worker, message.failed());
      return;
    default:
      return;  // unknown to this version
  }
  replacement_.StopIfDrained();
  tuning_.StopIfDrained(MonotonicNanos());
  Dispatch();
}

void WorkerPool::OnBound(PoolWorker& worker, const internal::v1::Bound& bound) {
  if (!worker.process->MarkBound()) return;
  for (const v1::SandboxPart& part : report_.OnBound(bound)) {
    if (part.name() == "seccomp" && !part.active()) {
      context_.compartment->NoteWithoutSeccomp(part.reason());
    }
  }
  code_.OnBound(worker.code_at_bind);
  segments_.SetCode(code_.files());
  worker.bound = true;
  crew_.SlotOf(worker).failed_starts = 0;
  worker.bound_ns = worker.last_progress_ns = MonotonicNanos();
  const uint64_t data_limit_bytes = ReadDataLimit(worker.process->pid()).value_or(0);
  worker.memory.SetDataLimit(data_limit_bytes);
  worker.flight.LimitMemory(data_limit_bytes);
  for (const auto& stream : streams_.all()) SendStream(worker, *stream);
  segments_.Tell();
  if (crew_.StandingOf(worker) == Crew::Standing::kSuccessor) {
    replacement_.WarmUp(worker);
  } else {
    Dispatch();
  }
}

void WorkerPool::OnFailed(PoolWorker& worker, const internal::v1::Failed& failed) {
  worker.claims->mapped.erase(failed.stream_id());  // it could not map it, or no longer does
  if (const auto stream = streams_.Find(failed.stream_id())) {
    stream->Fail(StatusFromWorkerError(failed.error()));
  } else if (failed.stream_id() == 0 && !worker.bound) {
    // While another worker serves, this one may have met a passing storage fault.
    if (crew_.AnyReady() && failed.error().reason() != reason::kIndexDamaged) {
      worker.process->Kill(v1::EXIT_CAUSE_TOLD,
                           absl::StrCat("it could not be bound: ", failed.error().message()));
    } else {
      FailAll(StatusFromWorkerError(failed.error()));
    }
  }
}

void WorkerPool::OnExit(PoolWorker& worker, const WorkerEnd& told_end) {
  FlightSnapshot flight = worker.flight.Read();
  const auto has_slot = [&](const auto& stream) {
    return flight.wild->slot < stream->config().binding.slot_count();
  };
  const auto& streams = streams_.all();
  // No slot of any arena: the worker's own word, and not a true one.
  if (flight.wild.has_value() && std::ranges::none_of(streams, has_slot)) {
    flight.wild.reset();
  }
  WorkerEnd end = Explain(told_end, worker, flight);
  if (worker.trace != nullptr) worker.trace->NoteEnd(end.reason);
  const bool met_limit = ExitLog::IsLimitEvent(end.cause);
  const bool grew = met_limit && !worker.memory.IsOneSamplesDoing(flight);
  if (grew && config_.quota_bytes > 0) {
    const std::string haste = replacement_.WhyTooLate(worker, MonotonicNanos());
    if (!haste.empty()) end.reason += "; " + haste;
  }
  const bool at_import = !worker.bound && !config_.user_code.empty();
  const bool again = met_limit || end.cause == v1::EXIT_CAUSE_HUNG ||
                     end.cause == v1::EXIT_CAUSE_PROTOCOL;  // another one would do the same
  if (at_import && again && !crew_.AnyReady()) {
    FailAll(ImportError(config_, end));
  }
  Slot& slot = crew_.SlotOf(worker);
  // A written-off worker's leases were blamed earlier; one that had to go ended as told.
  const bool blameless = worker.written_off || (slot.leaves && end.as_told);
  const DeathFinding found =
      blameless ? DeathFinding{} : blame_.OnDeath(worker, flight, end.cause, end.reason);
  if (found.is_proof) slot.deaths = 0;
  flight.refused_stage = config_.WithCode(flight.refused_stage);
  const std::string refusal =
      DescribeRefusal(flight, worker.memory.peak_bytes(), config_.quota_bytes);
  if (!refusal.empty() && config_.quota_bytes > 0) end.reason += "; " + refusal;
  const FlightSnapshot told = streams_.WithinLeases(worker.id, flight);
  uint32_t redone = 0;
  for (const auto& stream : streams_.all()) redone += stream->WorkerGone(worker.id);
  report_.OnExit(worker, end, told, redone);
  segments_.OnGone(worker);
  verdict_.OnGone(worker, worker.outgrew || (grew && worker.bound));

  const Crew::Standing standing = crew_.StandingOf(worker);
  const std::string name = crew_.NameOf(worker);
  if (standing == Crew::Standing::kInPlace) {
    if (!worker.bound) ++slot.failed_starts;
    slot.last_end = end.reason;
    slot.grew_by = worker.memory.BytesPerSample();
    if (grew) {
      // It may have grown too fast for its growth to be known.
      slot.grew_by = std::max(slot.grew_by, worker.memory.growth().SinceStart());
      memory_watch_.LookMoreOften(MonotonicNanos());
      replacement_.NoteOutgrown();
    }
  }
  // Deleted later, because this call comes from inside the process object.
  context_.loop->Post([gone = std::shared_ptr<PoolWorker>(crew_.TakeOut(worker))] {});
  if (broken()) return;
  if (!end.as_told) {
    const std::string death = absl::StrCat(
        end.reason, found.work.empty() ? "" : " at ", found.work, "; ",
        redone == 1 ? "1 lease is" : absl::StrCat(redone, " leases are"), " done again");
    spdlog::warn("{} of pipeline {}: {}", name, config_.name, death);
    streams_.Count(StreamNotes::kDeath, absl::StrCat(name, ": ", death));
  }
  if (parked_ && standing == Crew::Standing::kInPlace) {
    OnUnmanned();
  } else if (slot.leaves) {
    crew_.RemoveEmptyPlaces();
  } else if (replacement_.OnExit(standing, slot, end)) {
    ScheduleWatch(/*soon=*/replacement_.active());
  } else {
    // A reserved place stays reserved: its next worker is fresh.
    const bool idle = worker.held.empty();
    RestartLater(slot, idle ? MakeError(absl::StatusCode::kAborted, reason::kWorkerCrashLoop,
                                        absl::StrCat("workers ended before they had any work, ",
                                                     blame_.idle_deaths() + 1,
                                                     " in a row; the last one: ", end.reason))
                            : absl::OkStatus());
  }
  Dispatch();
}

void WorkerPool::FailAll(const absl::Status& status) {
  if (broken() || status.ok()) return;
  failure_ = status;
  FailStreams(status);
  for (const auto& slot : crew_.slots()) context_.loop->Cancel(slot->restart_timer);
  crew_.ForEach([&](PoolWorker& worker) { worker.process->Stop(context_.timeouts.stop_grace); });
  replacement_.Leave();
}

bool WorkerPool::Park() {
  const auto is_busy = [](const auto& slot) {
    return slot->worker != nullptr && (!slot->worker->held.empty() || slot->worker->killed_ns != 0);
  };
  const bool busy = std::ranges::any_of(crew_.slots(), is_busy);
  if (busy || broken() || parked_ || replacement_.active() || crew_.AnyLost()) return false;
  parked_ = true;
  dispatcher_.ForgetSetApart();
  context_.memory->MarkReturning();
  for (const auto& slot : crew_.slots()) {
    context_.loop->Cancel(std::exchange(slot->restart_timer, 0));
    if (slot->worker != nullptr) slot->worker->process->Stop(context_.timeouts.stop_grace);
  }
  for (const auto& stream : streams_.all()) stream->config().observer->OnIdle(true);
  OnUnmanned();
  return true;
}

void WorkerPool::OnUnmanned() {
  if (crew_.AnyInPlace()) return;
  context_.memory->Release();
  if (!resume_.has_value()) return;
  *context_.memory = std::move(resume_->memory);
  dispatcher_.ForgetSetApart();  // places may go
  crew_.Resize(resume_->workers);
  resume_.reset();
  parked_ = false;
  for (const auto& slot : crew_.slots()) StartWorker(*slot);
  for (const auto& stream : streams_.all()) stream->config().observer->OnIdle(false);
  ScheduleWatch(/*soon=*/false);
}

void WorkerPool::ScheduleWatch(bool soon) {
  if (watch_timer_ != 0 && (watch_soon_ || !soon)) return;
  context_.loop->Cancel(watch_timer_);
  watch_soon_ = soon;
  const absl::Duration delay =
      soon ? memory_watch_.Interval(MonotonicNanos()) : context_.timeouts.CheckInterval();
  watch_timer_ = context_.loop->After(delay, [this] {
    watch_timer_ = 0;
    Watch();
  });
}

void WorkerPool::Watch() {
  const int64_t now_ns = MonotonicNanos();
  bool busy = replacement_.active();
  std::vector<PoolWorker*> stuck;
  crew_.ForEach([&](PoolWorker& worker) {
    // Imports may take memory fast.
    busy = busy || !worker.held.empty() || !worker.bound || worker.is_unseen();
    memory_watch_.Look(worker, crew_.SlotOf(worker), now_ns);
    if (!progress_watch_.Look(worker, now_ns)) WriteOff(worker);
    if (worker.written_off) stuck.push_back(&worker);
  });
  verdict_.Look(now_ns);
  if (!broken() && !parked_) tuning_.Look(now_ns);
  if (context_.scratch != nullptr) context_.scratch->LookSoon();
  segments_.Tell();
  progress_watch_.TellActivity(now_ns);
  streams_.SendNotes();
  for (PoolWorker* const worker : stuck) replacement_.GiveUp(*worker);
  if (!broken()) replacement_.BeginIfDue(now_ns);
  // Leases may have waited for a look, or for a successor that failed.
  if (!parked_) Dispatch();
  ScheduleWatch(busy || replacement_.active());
}

void WorkerPool::WriteOff(PoolWorker& worker) {
  worker.written_off = true;
  blame_.OnDeath(worker, worker.flight.Read(), v1::EXIT_CAUSE_HUNG,
                 "it was killed but does not exit");
  for (const auto& stream : streams_.all()) stream->WriteOff(worker.id);
  dispatcher_.StopSuspectAt(worker);
  spdlog::warn("worker {} of pipeline {} (pid {}) was killed but does not exit, so it is given up",
               worker.slot, config_.name, worker.process->pid());
  const auto is_lost = [this](const auto& slot) {
    if (slot->worker == nullptr) return parked_ || slot->leaves;
    return slot->worker->written_off || slot->leaves;
  };
  if (std::ranges::all_of(crew_.slots(), is_lost)) {
    FailAll(MakeError(absl::StatusCode::kUnavailable, reason::kWorkerStuck,
                      "every worker was killed because it made no progress, but none exits, so no "
                      "worker is left; their storage may hang"));
  }
  Dispatch();
}

void WorkerPool::AppendStatus(v1::GetStatusResponse& response) const {
  report_.AppendWorkers(/*starts=*/!parked_, response);
  for (const auto& stream : streams_.all()) {
    if (stream->config().for_others) continue;
    v1::StreamStatus& status = *response.add_streams();
    status = stream->Status();
    status.set_pipeline(config_.name);
    status.set_idle(parked_);
    share_groups_.Describe(*stream, status);
  }
  verdict_.AppendStatus(response);
  tuning_.AppendStatus(response);
  AppendTotals(response);
}

}  // namespace bulkhead
