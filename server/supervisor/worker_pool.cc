#include "server/supervisor/worker_pool.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/arena/worker_error.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/supervisor/lease_word.h"

namespace bulkhead {
WorkerPool::WorkerPool(PoolContext context, PipelineConfig config)
    : context_(std::move(context)), config_(std::move(config)) {
  if (config_.user_code.empty()) segment_domain_ = config_.trust_domain;
}

WorkerPool::~WorkerPool() {
  TellCode(absl::CancelledError("the service ends"));
  context_.loop->Cancel(watch_timer_);
  for (const auto& slot : slots_) context_.loop->Cancel(slot->restart_timer);
  if (replacement_ != nullptr) KeepPlaceUntilReaped();
  context_.gate->Leave(this);
  ForEachWorker([&](PoolWorker& worker) { GiveSegmentsBack(worker); });
}

void WorkerPool::Start() {
  for (uint32_t index = 0; index < config_.workers; ++index) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->index = index;
    StartWorker(*slots_.back());
  }
  ScheduleWatch(/*soon=*/!config_.user_code.empty());
}

void WorkerPool::SendStream(PoolWorker& worker, const Stream& stream) {
  if (worker.process->phase() >= WorkerPhase::kKilled) return;  // it will never map the arena
  internal::v1::ToWorker message;
  *message.mutable_add_stream()->mutable_stream() = stream.config().binding;
  message.mutable_add_stream()->mutable_stream()->set_stream_id(stream.id());
  *message.mutable_add_stream()->mutable_stream()->mutable_quarantined() =
      stream.quarantine().quarantined();
  worker.claims->mapped[stream.id()] = {stream.config().arena->bytes(), stream.config().writer};
  worker.process->Send(message, {stream.config().arena->fd()});
}

void WorkerPool::AddStream(std::shared_ptr<Stream> stream) {
  if (broken()) {
    stream->Fail(failure_);
    return;
  }
  streams_.push_back(stream);
  ForEachWorker([](PoolWorker& worker) { worker.cpu_seconds_at_rest = -1; });
  stream->config().observer->OnAdded();
  ForEachWorker([&](PoolWorker& worker) {
    if (worker.bound) SendStream(worker, *stream);
  });
  writes_segments_ = writes_segments_ || stream->config().binding.reads_again();
  SendSegments();
  for (const auto& [name, digest] : code_) stream->NoteCode(name, digest);
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
  past_delivered_ += (*found)->samples_delivered();
  streams_.erase(found);
  writes_segments_ = std::any_of(streams_.begin(), streams_.end(), [](const auto& other) {
    return other->config().binding.reads_again();
  });
  internal::v1::ToWorker message;
  message.mutable_remove_stream()->set_stream_id(stream_id);
  ForEachWorker([&](PoolWorker& worker) {
    if (worker.bound) worker.process->Send(message);
  });
  return true;
}

std::shared_ptr<Stream> WorkerPool::FindStream(uint64_t stream_id) const {
  for (const auto& stream : streams_) {
    if (stream->id() == stream_id) return stream;
  }
  return nullptr;
}

bool WorkerPool::CanTakeLease(const PoolWorker* worker) const {
  return worker != nullptr && worker->is_ready() && worker->held.size() < Capacity() &&
         !WaitsForSuccessor(*worker);
}

void WorkerPool::Dispatch() {
  if (parked()) {
    if (has_work()) context_.on_wanted(this);
    return;
  }
  GiveSuspect();
  while (!broken()) {
    PoolWorker* best = nullptr;
    for (const auto& slot : slots_) {
      PoolWorker* const worker = slot->worker.get();
      if (!CanTakeLease(worker) || slot.get() == set_apart_) continue;
      if (best == nullptr || worker->held.size() < best->held.size()) best = worker;
    }
    if (best == nullptr || !GiveLease(*best)) return;
  }
}

bool WorkerPool::has_work() const {
  return std::any_of(streams_.begin(), streams_.end(), [](const auto& stream) {
    return stream->has_planned() || stream->has_suspect();
  });
}

bool WorkerPool::GiveLease(PoolWorker& worker) {
  for (size_t tried = 0; tried < streams_.size(); ++tried) {
    Stream& stream = *streams_[next_stream_++ % streams_.size()];
    const auto lease = stream.Assign(worker.id);
    if (!lease.has_value()) continue;
    SendLease(worker, *lease);
    return true;
  }
  return false;
}

void WorkerPool::Quarantine(Stream& stream, const std::string& record, const std::string& reason,
                            uint32_t deaths) {
  if (!stream.Quarantine(record, reason, deaths)) return;
  spdlog::warn("{} is quarantined in stream {}: it ended {} workers; the last one: {}", record,
               stream.config().name, deaths, reason);
  internal::v1::ToWorker message;
  *message.mutable_set_quarantine() = stream.quarantine();
  ForEachWorker([&](PoolWorker& worker) {
    if (worker.bound) worker.process->Send(message);
  });
}

WorkerPool::Slot* WorkerPool::SlotToSetApart() const {
  const auto suspects = [](const auto& stream) { return stream->has_suspect(); };
  if (std::none_of(streams_.begin(), streams_.end(), suspects)) return nullptr;
  // A fresh process if there is one, or will be; else the one that is done soonest, whose successor
  // will be.
  const auto rank = [](const Slot& slot) {
    const PoolWorker* const worker = slot.worker.get();
    const bool comes = worker == nullptr || !worker->bound;
    const bool used = !comes && (worker->leases_given > 0 || worker->rehearsed);
    return std::make_tuple(!Starts(slot), used, comes, comes ? 0 : worker->held.size());
  };
  Slot* best = nullptr;
  for (const auto& slot : slots_) {
    const PoolWorker* const worker = slot->worker.get();
    const bool ends =
        worker != nullptr && (worker->written_off || (worker->bound && !worker->is_ready()));
    if (ends) continue;
    if (best == nullptr || rank(*slot) < rank(*best)) best = slot.get();
  }
  return best;
}

bool WorkerPool::Starts(const Slot& slot) {
  return slot.failed_starts == 0 || (slot.worker != nullptr && slot.worker->bound);
}

void WorkerPool::GiveSuspect() {
  if (set_apart_ == nullptr || !Starts(*set_apart_)) set_apart_ = SlotToSetApart();
  if (set_apart_ == nullptr) return;
  PoolWorker* const worker = set_apart_->worker.get();
  if (!CanTakeLease(worker) || !worker->held.empty()) return;
  for (size_t tried = 0; tried < streams_.size(); ++tried) {
    Stream& stream = *streams_[next_stream_++ % streams_.size()];
    const auto lease = stream.AssignSuspect(worker->id);
    if (!lease.has_value()) continue;
    SendLease(*worker, *lease);
    return;
  }
  set_apart_ = nullptr;
}

void WorkerPool::SendLease(PoolWorker& worker, const internal::v1::Lease& lease) {
  internal::v1::ToWorker message;
  *message.mutable_lease() = lease;
  // Waiting for work is no lack of progress.
  if (worker.held.empty()) worker.last_progress_ns = MonotonicNanos();
  const bool shared = config_.whole_batches && !lease.one_thread() && config_.threads > 1;
  worker.held.push_back({lease.stream_id(), lease.lease_id(), lease.count(), shared});
  largest_lease_ = std::max(largest_lease_, lease.count());
  ++worker.leases_given;
  worker.samples_given += lease.count();
  worker.process->Send(message);
  ScheduleWatch(/*soon=*/true);
}

bool WorkerPool::TakeBack(PoolWorker& worker, uint64_t stream_id, uint64_t lease_id) {
  const auto found =
      std::find_if(worker.held.begin(), worker.held.end(), [&](const PoolWorker::Held& held) {
        return held.stream_id == stream_id && held.lease_id == lease_id;
      });
  if (found == worker.held.end()) return false;
  worker.held.erase(found);
  worker.last_progress_ns = MonotonicNanos();
  Slot& slot = *slots_[worker.slot];
  slot.deaths = 0;
  if (&slot == set_apart_ && slot.worker.get() == &worker && worker.held.empty()) {
    set_apart_ = nullptr;
  }
  EndIfDrained();
  return true;
}

void WorkerPool::OnLeaseDone(PoolWorker& worker, const internal::v1::LeaseDone& done) {
  if (const auto stream = FindStream(done.stream_id())) {
    // Then it still holds the lease, which is done again by another.
    if (const absl::Status word = stream->CheckWord(done, worker.id); !word.ok()) {
      worker.process->Kill(v1::EXIT_CAUSE_PROTOCOL,
                           absl::StrCat("it broke the protocol: ", std::string(word.message())));
      return;
    }
  }
  if (!TakeBack(worker, done.stream_id(), done.lease_id())) return;
  if (const auto stream = FindStream(done.stream_id())) {
    if (const auto samples = stream->Complete(done, worker.id)) {
      idle_deaths_ = 0;
      worker.samples += *samples;
      samples_ += *samples;
    }
  }
  Dispatch();
}

void WorkerPool::OnLeaseFailed(PoolWorker& worker, const internal::v1::LeaseFailed& failed) {
  if (!TakeBack(worker, failed.stream_id(), failed.lease_id())) return;
  if (failed.error().reason() == reason::kIndexDamaged) {
    // All workers have it mapped; those of the streams' next opening get the one that is built
    // anew.
    FailAll(StatusFromWorkerError(failed.error()));
    return;
  }
  if (const auto stream = FindStream(failed.stream_id())) {
    stream->FailLease(failed, worker.id);
  }
  Dispatch();
}

uint64_t WorkerPool::GrownBy(const PoolWorker& worker, const FlightSnapshot& flight,
                             size_t thread) const {
  const auto tracked =
      static_cast<uint64_t>(std::max<int64_t>(0, flight.threads[thread].grown_bytes));
  uint64_t seen = 0;
  if (thread < worker.at_sample.size() &&
      worker.at_sample[thread].began_ns == flight.threads[thread].began_ns) {
    const uint64_t before = worker.at_sample[thread].used_before;
    const uint64_t now = worker.growth.used_bytes();
    seen = now > before ? now - before : 0;
  }
  const bool refused = flight.refused_thread == static_cast<int>(thread);
  return std::max(tracked, seen) + (refused ? flight.refused_bytes : 0);
}

bool WorkerPool::IsOneSamplesDoing(const PoolWorker& worker, const FlightSnapshot& flight) const {
  for (size_t i = 0; i < flight.threads.size(); ++i) {
    if (GrownBy(worker, flight, i) > config_.quota_bytes / 4) return true;
  }
  return false;
}

std::string WorkerPool::BlameLeases(const PoolWorker& worker, const FlightSnapshot& flight,
                                    v1::ExitCause cause, const std::string& reason) {
  EndFacts facts{cause, worker.held, flight, config_.quota_bytes, {}, worker.hung_since_ns, 0};
  for (size_t i = 0; i < flight.threads.size(); ++i) {
    facts.grown_bytes.push_back(GrownBy(worker, flight, i));
  }
  // Of whole batches all threads are at the first one.
  facts.begun = config_.whole_batches ? 1 : config_.threads;
  std::string first;
  for (const Suspicion& suspicion : SuspicionsOf(facts)) {
    const std::string at = BlameLease(worker, flight, suspicion, cause, reason);
    // Without a thread's word nobody knows which of them it was.
    if (first.empty() && suspicion.thread.has_value()) first = at;
  }
  return first;
}

std::string WorkerPool::BlameLease(const PoolWorker& worker, const FlightSnapshot& flight,
                                   const Suspicion& suspicion, v1::ExitCause cause,
                                   const std::string& reason) {
  const PoolWorker::Held& held = worker.held[suspicion.held];
  const auto stream = FindStream(held.stream_id);
  if (stream == nullptr) return "";
  // Where several threads were at one lease nobody can say which sample it was.
  const bool alone = worker.leases_given == 1 && !worker.rehearsed && !held.shared;
  const auto death = stream->NoteDeath(held.lease_id, worker.id, alone, suspicion.by_itself);
  if (!death.has_value()) return "";
  std::string work = death->work;
  // The worker may have written anything: of a sample of another lease it cannot speak.
  const FlightSnapshot::Thread* thread =
      suspicion.thread.has_value() ? &flight.threads[*suspicion.thread] : nullptr;
  const uint64_t positions = stream->config().binding.samples_per_epoch();
  if (thread != nullptr && !LeaseCovers(death->lease, positions, thread->epoch, thread->position)) {
    thread = nullptr;
  }
  if (thread != nullptr && !thread->sample.empty()) {
    work = absl::StrCat(thread->stage, " of ", thread->sample, " (", work, ")");
  } else if (thread != nullptr && config_.whole_batches) {
    work = absl::StrCat(thread->stage, " of the batch (", work, ")");
  }
  if (thread != nullptr && suspicion.hung) ReportHang(worker, *stream, *thread, work);
  const bool named = thread != nullptr && !thread->sample.empty() &&
                     thread->sample.size() < FlightThread::kSampleBytes;
  if (alone && suspicion.by_itself && named) {
    const uint32_t poisoned = stream->NotePoison(thread->sample);
    if (poisoned >= kPoisonDeaths) {
      Quarantine(*stream, thread->sample, absl::StrCat(reason, " in ", thread->stage), poisoned);
      return work;
    }
  }
  if (death->convicting + LeaseTable::kSuspectDeaths >= kMaxDeaths) {
    stream->Fail(CrashLoop(death->deaths, cause, reason, work));
  }
  return work;
}

void WorkerPool::ReportHang(const PoolWorker& worker, Stream& stream,
                            const FlightSnapshot::Thread& thread, const std::string& work) const {
  v1::SampleEvent event;
  event.set_kind(v1::SampleEvent::KIND_HUNG);
  event.set_epoch(thread.epoch);
  event.set_position(thread.position);
  event.set_record(thread.sample);
  event.set_message(absl::StrCat("worker ", worker.slot, " made no progress for ",
                                 absl::FormatDuration(context_.timeouts.hang), " at ", work,
                                 worker.stack.empty() ? "" : "; Python was at ", worker.stack,
                                 "; it is ended, and others do its work"));
  stream.ReportHang(event);
}

absl::Status WorkerPool::CrashLoop(uint32_t deaths, v1::ExitCause cause, const std::string& reason,
                                   const std::string& work) const {
  const std::string advice =
      cause == v1::EXIT_CAUSE_HUNG
          ? absl::StrCat(
                "The storage may hang; if such samples are that slow, raise "
                "--worker-hang-timeout (now ",
                absl::FormatDuration(context_.timeouts.hang), ")")
          : absl::StrCat("If memory ran out, raise --worker-quota (now ",
                         FormatBytes(config_.quota_bytes), ") or lower decode_image.max_pixels");
  return MakeError(absl::StatusCode::kAborted, reason::kWorkerCrashLoop,
                   absl::StrCat("the same samples ended ", deaths,
                                " workers; the last one: ", reason, ", at ", work, ". ", advice),
                   {{"work", work}, {"cause", reason}});
}

void WorkerPool::FailStreams(const absl::Status& status) {
  TellCode(status);
  for (const auto& stream : streams_) stream->Fail(status);
}

}  // namespace bulkhead
