// The processes of a WorkerPool: their start, what they say, their ends.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/arena/code_files.h"
#include "server/arena/worker_error.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/os/memory_map.h"
#include "server/os/pipe.h"
#include "server/os/process_memory.h"
#include "server/os/sandbox.h"
#include "server/supervisor/worker_pool.h"
#include "server/supervisor/worker_usage.h"

namespace bulkhead {
namespace {

// Ids of worker processes; unique over all pools, so that the word of a dead one can never be taken
// for another's.
LeaseTable::WorkerId NextWorkerId() {
  static LeaseTable::WorkerId next = 1;
  return next++;
}

// What a worker says of its sandbox, where it can be true: each part once. The user's code may have
// been imported by then, and their names go into metrics.
std::vector<v1::SandboxPart> KnownParts(const internal::v1::Bound& bound) {
  std::vector<v1::SandboxPart> parts;
  for (const char* name : kSandboxParts) {
    const auto said =
        std::find_if(bound.sandbox().begin(), bound.sandbox().end(),
                     [&](const v1::SandboxPart& part) { return part.name() == name; });
    if (said != bound.sandbox().end()) parts.push_back(*said);
  }
  return parts;
}

}  // namespace

void WorkerPool::ForEachWorker(const std::function<void(PoolWorker&)>& visit) const {
  for (const auto& slot : slots_) {
    if (slot->worker != nullptr) visit(*slot->worker);
  }
  for (const auto& worker : lost_) visit(*worker);
  if (replacement_ == nullptr) return;
  if (replacement_->successor != nullptr) visit(*replacement_->successor);
  if (replacement_->predecessor != nullptr) visit(*replacement_->predecessor);
}

absl::StatusOr<std::unique_ptr<PoolWorker>> WorkerPool::Spawn(Slot& slot) {
  BULKHEAD_ASSIGN_OR_RETURN(FlightRecorder recorder, FlightRecorder::Create(config_.threads));
  const uint32_t most_threads = config_.threads + 1 + context_.sandbox.extra_threads();
  auto worker = std::make_unique<PoolWorker>(
      FlightReader(std::move(recorder), config_.stages, most_threads), config_.threads);
  PoolWorker& raw = *worker;
  raw.id = NextWorkerId();
  raw.slot = slot.index;
  raw.generation = ++slot.generation;
  raw.started = absl::Now();
  raw.spawned_ns = raw.last_progress_ns = MonotonicNanos();
  raw.at_sample.resize(config_.threads);
  raw.growth.Expect(slot.grew_by);
  WorkerProcess::Callbacks callbacks;
  callbacks.on_message = [this, &raw](const internal::v1::FromWorker& message) {
    OnMessage(raw, message);
  };
  callbacks.on_exit = [this, &raw](const WorkerEnd& end) { OnExit(raw, end); };
  if (!config_.user_code.empty() && context_.scratch != nullptr) {
    raw.scratch = context_.scratch->Lend();
  }
  // What it was given is kept until it is reaped.
  callbacks.on_orphan_exit = [exits = context_.exits, memory = context_.memory,
                              scratch = raw.scratch, claims = raw.claims](const ProcessExit& exit) {
    exits->AddOrphan(exit.cpu_seconds);
  };
  WorkerProgram program = config_.python ? context_.programs.python : context_.programs.native;
  // Else not: where the machine is a virtual one, its host may have to find each huge page first.
  if (MonotonicNanos() < fast_until_ns_) {
    program.environment.push_back(HugePagesInHeap());
  }
  if (raw.scratch != nullptr) AddScratch(raw.scratch->path(), program.environment);
  BULKHEAD_ASSIGN_OR_RETURN(raw.process,
                            WorkerProcess::Start(*context_.loop, program, std::move(callbacks)));
  if (raw.scratch != nullptr) raw.scratch->SetOwner(raw.process->pid());
  // Before it sees anything.
  BULKHEAD_ASSIGN_OR_RETURN(
      raw.cell, context_.compartment->Admit(raw.process->pid(), config_.quota_bytes,
                                            config_.threads, context_.sandbox.extra_threads()));
  SendBinding(raw);
  return worker;
}

void WorkerPool::Install(Slot& slot, std::unique_ptr<PoolWorker> worker) {
  slot.worker = std::move(worker);
  // What was said of the one before.
  slot.asked = false;
  slot.slow.clear();
}

void WorkerPool::StartWorker(Slot& slot) {
  if (broken() || parked_) return;
  slot.restart_timer = 0;
  auto worker = Spawn(slot);
  if (worker.ok()) {
    Install(slot, *std::move(worker));
  } else {
    OnStartFailed(slot, worker.status());
  }
}

// No process, no descriptor: may pass, so it is a death like any other.
void WorkerPool::OnStartFailed(Slot& slot, const absl::Status& status) {
  const std::string message(status.message());
  spdlog::warn("no worker {} of pipeline {} could be started: {}", slot.index, config_.name,
               message);
  ++slot.deaths;
  ++slot.failed_starts;
  slot.last_end = absl::StrCat("none could be started: ", message);
  NoteIdleDeath(slot, absl::StatusCode::kUnavailable,
                absl::StrCat("no worker could be started: ", message));
  RestartLater(slot);
  Dispatch();  // what was set apart for it goes to another
}

void WorkerPool::SendBinding(PoolWorker& worker) {
  const auto memory = CreateSealedMessage(config_.binding);
  if (!memory.ok()) {
    worker.process->Kill(v1::EXIT_CAUSE_TOLD, absl::StrCat("it could not be bound: ",
                                                           std::string(memory.status().message())));
    return;
  }
  internal::v1::ToWorker message;
  std::vector<int> fds = {memory->get(), worker.flight.recorder().fd()};
  absl::StatusOr<Pipe> stacks = absl::UnimplementedError("it has no Python stages");
  if (config_.python) stacks = Pipe::Make();
  if (stacks.ok()) {
    fds.push_back(stacks->writing.get());
    worker.stacks_fd = std::move(stacks->reading);
  }
  message.mutable_bind()->set_threads(config_.threads);
  message.mutable_bind()->set_quota_bytes(config_.quota_bytes);
  message.mutable_bind()->set_attribution(config_.attribution);
  *message.mutable_bind()->mutable_sandbox() = context_.sandbox;
  // Who has no index there need not wait for the cache folder's disk.
  if (config_.mapped_bytes == 0) message.mutable_bind()->mutable_sandbox()->clear_readable();
  if (worker.scratch != nullptr) {
    message.mutable_bind()->mutable_sandbox()->set_scratch(worker.scratch->path());
  }
  UniqueFd indexes;
  if (!config_.index_fds.empty()) {
    absl::StatusOr<UniqueFd> parcel = PackFds(config_.index_fds);
    if (parcel.ok()) {
      indexes = *std::move(parcel);
      fds.push_back(indexes.get());
    } else {
      spdlog::warn("a worker of pipeline {} opens its indexes by their paths: {}", config_.name,
                   std::string(parcel.status().message()));
    }
  }
  worker.process->Send(message, fds);
}

void WorkerPool::OnMessage(PoolWorker& worker, const internal::v1::FromWorker& message) {
  switch (message.message_case()) {
    case internal::v1::FromWorker::kHello:
      worker.hello_ns = MonotonicNanos();
      break;
    case internal::v1::FromWorker::kBound:
      OnBound(worker, message.bound());
      break;
    case internal::v1::FromWorker::kWarmedUp:
      OnWarmedUp(worker, message.warmed_up());
      break;
    case internal::v1::FromWorker::kLeaseDone:
      OnLeaseDone(worker, message.lease_done());
      break;
    case internal::v1::FromWorker::kLeaseFailed:
      OnLeaseFailed(worker, message.lease_failed());
      break;
    case internal::v1::FromWorker::kLeaseProgress:
      if (!worker.held.empty()) worker.last_progress_ns = MonotonicNanos();
      break;
    case internal::v1::FromWorker::kStreamRemoved:
      worker.claims->mapped.erase(message.stream_removed().stream_id());
      break;
    case internal::v1::FromWorker::kSegmentFull:
      for (CacheSegments* segments : {context_.seek_segments, context_.stage_segments}) {
        if (segments != nullptr && segments->kind() == message.segment_full().kind()) {
          segments->OnFull(worker);
        }
      }
      SendSegments();
      break;
    case internal::v1::FromWorker::kCodeLoaded:
      NoteCode(message.code_loaded().code());
      break;
    case internal::v1::FromWorker::kFailed:
      OnFailed(worker, message.failed());
      break;
    default:
      break;  // stream_added: nothing waits for it
  }
}

void WorkerPool::OnBound(PoolWorker& worker, const internal::v1::Bound& bound) {
  if (!worker.process->MarkBound()) return;
  sandbox_ = KnownParts(bound);
  for (const v1::SandboxPart& part : sandbox_) {
    if (part.name() == "seccomp" && !part.active()) {
      context_.compartment->NoteWithoutSeccomp(part.reason());
    }
  }
  if (!NoteCode(bound.code())) return;
  if (!first_code_.has_value()) {
    first_code_.emplace(bound.code().begin(), bound.code().end());
    std::sort(first_code_->begin(), first_code_->end(),
              [](const auto& a, const auto& b) { return a.name() < b.name(); });
    if (!config_.user_code.empty()) {
      segment_domain_ = FingerprintWithCode(config_.trust_domain, *first_code_);
    }
    TellCode(*first_code_);
  }
  worker.bound = true;
  slots_[worker.slot]->failed_starts = 0;
  worker.bound_ns = worker.last_progress_ns = MonotonicNanos();
  // Zero when it cannot be told: then what is resident counts alone.
  worker.data_limit_bytes = ReadDataLimit(worker.process->pid()).value_or(0);
  worker.flight.LimitMemory(worker.data_limit_bytes);
  for (const auto& stream : streams_) SendStream(worker, *stream);
  SendSegments();
  if (replacement_ != nullptr && replacement_->successor.get() == &worker) {
    SendWarmUp(worker);
  } else {
    Dispatch();
  }
}

bool WorkerPool::NoteCode(const google::protobuf::RepeatedPtrField<v1::CodeFile>& files) {
  for (const v1::CodeFile& file : files) {
    const auto [known, is_new] = code_.emplace(file.name(), file.digest());
    if (is_new) {
      for (const auto& stream : streams_) stream->NoteCode(file.name(), file.digest());
    } else if (known->second != file.digest()) {
      FailAll(CodeChanged(file.name(), known->second, file.digest()));
      return false;
    }
  }
  return true;
}

bool WorkerPool::RunsOther(const std::vector<v1::CodeFile>& code) const {
  return std::any_of(code.begin(), code.end(), [this](const v1::CodeFile& file) {
    const auto known = code_.find(file.name());
    return known != code_.end() && known->second != file.digest();
  });
}

void WorkerPool::WhenLoaded(CodeTold told) {
  if (broken()) {
    told(failure_);
  } else if (first_code_.has_value()) {
    told(*first_code_);
  } else {
    wait_for_code_.push_back(std::move(told));
  }
}

void WorkerPool::TellCode(const absl::StatusOr<std::vector<v1::CodeFile>>& code) {
  for (const CodeTold& told : std::exchange(wait_for_code_, {})) told(code);
}

void WorkerPool::SendSegments() const {
  if (segment_domain_.empty()) return;
  ForEachWorker([&](PoolWorker& worker) {
    if (config_.seeks && context_.seek_segments != nullptr) {
      context_.seek_segments->Tell(worker, segment_domain_, writes_segments_);
    }
    if (config_.caches && context_.stage_segments != nullptr) {
      context_.stage_segments->Tell(worker, segment_domain_, writes_segments_);
    }
  });
}

bool WorkerPool::LendSegments() {
  writes_segments_ = true;
  SendSegments();
  bool settled = true;
  ForEachWorker([&](PoolWorker& worker) {
    const bool seeks = config_.seeks && context_.seek_segments != nullptr;
    const bool caches = config_.caches && context_.stage_segments != nullptr;
    settled = settled && (!seeks || context_.seek_segments->IsSettled(worker)) &&
              (!caches || context_.stage_segments->IsSettled(worker));
  });
  return settled;
}

void WorkerPool::GiveSegmentsBack(PoolWorker& worker) const {
  for (CacheSegments* segments : {context_.seek_segments, context_.stage_segments}) {
    if (segments != nullptr) segments->OnGone(worker);
  }
}

void WorkerPool::OnFailed(PoolWorker& worker, const internal::v1::Failed& failed) {
  worker.claims->mapped.erase(failed.stream_id());  // it could not, or has none
  if (const auto stream = FindStream(failed.stream_id())) {
    stream->Fail(StatusFromWorkerError(failed.error()));
  } else if (failed.stream_id() == 0 && !worker.bound) {
    // While another worker serves, this one may have met a passing fault of the storage.
    if (AnyReady() && failed.error().reason() != reason::kIndexDamaged) {
      worker.process->Kill(v1::EXIT_CAUSE_TOLD,
                           absl::StrCat("it could not be bound: ", failed.error().message()));
    } else {
      FailAll(StatusFromWorkerError(failed.error()));
    }
  }
}

bool WorkerPool::AnyReady() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const auto& slot) {
    return slot->worker != nullptr && slot->worker->is_ready();
  });
}

void WorkerPool::FailImport(const WorkerEnd& end) {
  if (AnyReady()) return;
  const std::string what =
      end.cause == v1::EXIT_CAUSE_HUNG
          ? absl::StrCat(" does not end: ", end.reason, "; look at what it waits for")
          : absl::StrCat(" takes more than a worker's quota of ", FormatBytes(config_.quota_bytes),
                         ": ", end.reason, "; give the service a larger --worker-quota");
  FailAll(MakeError(absl::StatusCode::kFailedPrecondition, reason::kStageUnusable,
                    absl::StrCat("loading ", config_.user_code, what)));
}

void WorkerPool::NoteIdleDeath(const Slot& slot, absl::StatusCode code,
                               const std::string& message) {
  // One bad moment may befall all places at once: so one of them must have failed time and again.
  if (++idle_deaths_ < kMaxDeaths || slot.deaths < kMaxDeaths) return;
  // As long as one worker is ready the streams go on, if slowly.
  if (!AnyReady()) FailAll(MakeError(code, reason::kWorkerCrashLoop, message));
}

void WorkerPool::RestartLater(Slot& slot) {
  if (broken()) return;
  slot.restart_timer = context_.loop->After(context_.timeouts.Backoff(slot.deaths),
                                            [this, &slot] { StartWorker(slot); });
}

void WorkerPool::RecordExit(const PoolWorker& worker, const WorkerEnd& end,
                            const FlightSnapshot& flight, uint32_t leases_redone) const {
  v1::WorkerExit record = MakeWorkerExit(worker.process->pid(), end, worker.peak_memory_bytes);
  record.set_slot(worker.slot);
  record.set_generation(worker.generation);
  record.set_leases_redone(leases_redone);
  record.set_pipeline(config_.name);
  record.set_quota_bytes(config_.quota_bytes);
  record.set_samples(worker.samples);
  record.set_refused_stage(flight.refused_stage);
  record.set_refused_bytes(flight.refused_bytes);
  AppendStages(flight, *record.mutable_stages());
  AppendActivity(flight, *record.mutable_activity());
  const bool replaced = replacement_ != nullptr && replacement_->predecessor.get() == &worker;
  if (end.as_told && replaced) record.set_cause(v1::EXIT_CAUSE_RECYCLED);
  context_.exits->Add(std::move(record), end.as_told);
}

std::unique_ptr<PoolWorker> WorkerPool::TakeOut(PoolWorker& worker) {
  Slot& slot = *slots_[worker.slot];
  if (slot.worker.get() == &worker) return std::move(slot.worker);
  for (auto lost = lost_.begin(); lost != lost_.end(); ++lost) {
    if (lost->get() != &worker) continue;
    std::unique_ptr<PoolWorker> taken = std::move(*lost);
    lost_.erase(lost);
    return taken;
  }
  return replacement_->successor.get() == &worker ? std::move(replacement_->successor)
                                                  : std::move(replacement_->predecessor);
}

void WorkerPool::OnExit(PoolWorker& worker, const WorkerEnd& told_end) {
  WorkerEnd end = told_end;
  if (end.cause == v1::EXIT_CAUSE_KILLED && worker.cell->OomKills() > 0) {
    end.cause = v1::EXIT_CAUSE_CGROUP;
    end.reason += ": it met the limit of its cgroup";
  }
  const FlightSnapshot flight = worker.flight.Read();
  if (flight.wild.has_value() && end.cause == v1::EXIT_CAUSE_CRASHED) {
    end.reason += ": " + DescribeWildAccess(*flight.wild);
    context_.exits->AddWildWrite();
  }
  if (ExitLog::IsLimitEvent(end.cause) && config_.quota_bytes > 0 &&
      !IsOneSamplesDoing(worker, flight)) {
    const std::string haste = TooFastToRecycle(FactsOf(worker, MonotonicNanos()));
    if (!haste.empty()) end.reason += "; " + haste;
  }
  const bool had_leases = !worker.held.empty();
  const bool at_import = !worker.bound && !config_.user_code.empty();
  if (at_import && (ExitLog::IsLimitEvent(end.cause) || end.cause == v1::EXIT_CAUSE_HUNG)) {
    FailImport(end);
  }
  // Those of a worker that was written off were blamed then.
  const std::string work =
      worker.written_off ? "" : BlameLeases(worker, flight, end.cause, end.reason);
  const FlightSnapshot told = WithinLeases(worker, flight);
  uint32_t redone = 0;
  for (const auto& stream : streams_) redone += stream->WorkerGone(worker.id);
  leases_redone_ += redone;
  if (redone > 0) samples_redone_ += worker.held_samples();
  RecordExit(worker, end, told, redone);
  AddDecodes(flight, past_jpeg_, past_kept_);
  GiveSegmentsBack(worker);

  Slot& slot = *slots_[worker.slot];
  const bool in_place = slot.worker.get() == &worker;
  if (in_place && !worker.bound) ++slot.failed_starts;
  if (in_place) slot.last_end = end.reason;
  if (in_place) {
    slot.grew_by = worker.growth.BytesPerSample(config_.quota_bytes);
    if (ExitLog::IsLimitEvent(end.cause) && !IsOneSamplesDoing(worker, flight)) {
      // It may have been too fast for its growth to be known.
      slot.grew_by = std::max(slot.grew_by, worker.growth.SinceStart());
      LookMoreOften(MonotonicNanos());
    }
  }
  const bool was_predecessor =
      replacement_ != nullptr && replacement_->predecessor.get() == &worker;
  const bool was_successor = replacement_ != nullptr && replacement_->successor.get() == &worker;
  // This call comes from inside the process object, so it is deleted later.
  context_.loop->Post([gone = std::shared_ptr<PoolWorker>(TakeOut(worker))] {});
  if (broken()) return;
  if (!end.as_told) {
    spdlog::warn("worker {} of pipeline {}: {}{}{}; {} leases are done again", slot.index,
                 config_.name, end.reason, work.empty() ? "" : " at ", work, redone);
  }
  if (was_successor) {
    AbandonReplacement(end.reason);
  } else if (was_predecessor) {
    FinishReplacement(end.as_told);
  } else if (!in_place) {
    // It was written off, and its place given to another.
  } else if (parked_) {
    OnUnmanned();
  } else if (replacement_ != nullptr && replacement_->slot == &slot &&
             replacement_->successor != nullptr) {
    // Its successor is on its way already.
    Install(slot, std::move(replacement_->successor));
    ++slot.deaths;
    replacement_.reset();
    context_.gate->Leave(this);
  } else {
    // A worker that is set apart stays so: the next one in its place is fresh.
    ++slot.deaths;
    if (!had_leases) {
      NoteIdleDeath(slot, absl::StatusCode::kAborted,
                    absl::StrCat("workers end before they have anything to do, ", idle_deaths_ + 1,
                                 " in a row; the last one: ", end.reason));
    }
    RestartLater(slot);
  }
  Dispatch();
}

void WorkerPool::FailAll(const absl::Status& status) {
  if (broken()) return;
  failure_ = status;
  FailStreams(status);
  for (const auto& slot : slots_) context_.loop->Cancel(slot->restart_timer);
  ForEachWorker([&](PoolWorker& worker) { worker.process->Stop(context_.timeouts.stop_grace); });
  if (replacement_ != nullptr) KeepPlaceUntilReaped();
  context_.gate->Leave(this);
}

bool WorkerPool::Park() {
  const bool busy = std::any_of(slots_.begin(), slots_.end(), [](const auto& slot) {
    return slot->worker != nullptr && (!slot->worker->held.empty() || slot->worker->killed_ns != 0);
  });
  if (busy || broken() || parked_ || replacement_ != nullptr || !lost_.empty()) return false;
  parked_ = true;
  set_apart_ = nullptr;
  context_.memory->MarkReturning();
  for (const auto& slot : slots_) {
    context_.loop->Cancel(std::exchange(slot->restart_timer, 0));
    if (slot->worker != nullptr) slot->worker->process->Stop(context_.timeouts.stop_grace);
  }
  for (const auto& stream : streams_) stream->config().observer->OnIdle(true);
  OnUnmanned();
  return true;
}

void WorkerPool::Resume(uint32_t workers, MemoryClaim memory) {
  resume_ = Resumption{workers, std::move(memory)};
  OnUnmanned();
}

void WorkerPool::OnUnmanned() {
  const auto is_manned = [](const auto& slot) { return slot->worker != nullptr; };
  if (std::any_of(slots_.begin(), slots_.end(), is_manned)) return;
  context_.memory->Release();
  if (!resume_.has_value()) return;
  *context_.memory = std::move(resume_->memory);
  slots_.resize(resume_->workers);
  resume_.reset();
  parked_ = false;
  for (uint32_t index = 0; index < slots_.size(); ++index) {
    if (slots_[index] == nullptr) slots_[index] = std::make_unique<Slot>();
    slots_[index]->index = index;
  }
  // Behind that: a start that fails looks at all places.
  for (const auto& slot : slots_) StartWorker(*slot);
  for (const auto& stream : streams_) stream->config().observer->OnIdle(false);
  ScheduleWatch(/*soon=*/false);
}

FlightSnapshot WorkerPool::WithinLeases(const PoolWorker& worker, FlightSnapshot flight) const {
  for (FlightSnapshot::Thread& thread : flight.threads) {
    const auto stream = FindStream(thread.stream_id);
    if (stream == nullptr ||
        !stream->CanBeAt(thread.lease_id, worker.id, thread.epoch, thread.position)) {
      thread.lease_id = 0;
    }
  }
  return flight;
}

void WorkerPool::AppendWorker(PoolWorker& worker, v1::GetStatusResponse& response) const {
  v1::WorkerStatus& status = *response.add_workers();
  status.set_slot(worker.slot);
  status.set_generation(worker.generation);
  status.set_role("pipeline");
  status.set_pipeline(config_.name);
  status.set_threads(config_.threads);
  status.set_quota_bytes(config_.quota_bytes);
  status.set_quota_level(config_.quota_bytes == 0 ? "off" : worker.cell->level());
  status.set_leases(static_cast<uint32_t>(worker.held.size()));
  status.set_samples(worker.samples);
  status.mutable_start_time()->set_seconds(absl::ToUnixSeconds(worker.started));
  DescribeProcess(*worker.process, worker.peak_memory_bytes, status);
  const FlightSnapshot flight = worker.flight.Read();
  AppendStages(flight, *status.mutable_stages());
  AppendActivity(WithinLeases(worker, flight), *status.mutable_activity());
  if (replacement_ == nullptr) return;
  status.set_standby(replacement_->successor.get() == &worker);
  status.set_draining(replacement_->predecessor.get() == &worker);
}

void WorkerPool::AppendStatus(v1::GetStatusResponse& response) const {
  for (const auto& slot : slots_) {
    if (slot->worker != nullptr) {
      AppendWorker(*slot->worker, response);
      continue;
    }
    if (parked_) continue;
    v1::WorkerStatus& status = *response.add_workers();
    status.set_slot(slot->index);
    status.set_generation(slot->generation);
    status.set_role("pipeline");
    status.set_pipeline(config_.name);
    status.set_threads(config_.threads);
    status.set_quota_bytes(config_.quota_bytes);
    status.set_state(v1::WORKER_STATE_BACKOFF);
  }
  for (const auto& worker : lost_) AppendWorker(*worker, response);
  if (replacement_ != nullptr) {
    if (replacement_->successor != nullptr) AppendWorker(*replacement_->successor, response);
    if (replacement_->predecessor != nullptr) AppendWorker(*replacement_->predecessor, response);
  }
  for (const auto& stream : streams_) {
    v1::StreamStatus& status = *response.add_streams();
    status = stream->Status();
    status.set_pipeline(config_.name);
    status.set_idle(parked_);
  }
  if (response.containment().sandbox().empty()) {
    for (const v1::SandboxPart& part : sandbox_) {
      *response.mutable_containment()->add_sandbox() = part;
    }
  }
  AppendTotals(response);
}

void WorkerPool::AppendTotals(v1::GetStatusResponse& response) const {
  uint64_t substitutions = past_substitutions_;
  uint64_t delivered = past_delivered_;
  for (const auto& stream : streams_) {
    substitutions += stream->substitutions();
    delivered += stream->samples_delivered();
  }
  v1::JpegDecodes& jpeg = *response.mutable_jpeg();
  v1::KeptCounts& kept = *response.mutable_kept();
  AddDecodes(past_jpeg_, jpeg);
  kept.set_found(kept.found() + past_kept_.found());
  kept.set_added(kept.added() + past_kept_.added());
  ForEachWorker([&](PoolWorker& worker) { AddDecodes(worker.flight.Read(), jpeg, kept); });
  response.set_samples_substituted(response.samples_substituted() + substitutions);
  response.set_samples_delivered(response.samples_delivered() + delivered);
  response.set_samples_produced(response.samples_produced() + samples_);
  response.set_samples_redone(response.samples_redone() + samples_redone_);
  response.set_leases_redone(response.leases_redone() + leases_redone_);
}

}  // namespace bulkhead
