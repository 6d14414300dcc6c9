#include "server/supervisor/pool/blame.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/supervisor/leases/lease_word.h"
#include "server/supervisor/worker/exit_log.h"

namespace bulkhead {
namespace {

// Of the quota that is advised.
constexpr uint64_t kAdvisedStep = uint64_t{64} << 20;

// Whether the supervisor killed the worker for this thread, which still hangs at the same sample.
bool Hung(const EndFacts& facts, size_t thread) {
  return thread < facts.hung_since_ns.size() && facts.hung_since_ns[thread] != 0 &&
         facts.hung_since_ns[thread] == facts.flight.threads[thread].progress_ns();
}

bool IsByItself(const EndFacts& facts, size_t thread) {
  if (Hung(facts, thread)) return !facts.flight.threads[thread].reads;
  // A crash is the sample's doing, and so is an exceeded quota if the sample took much of it.
  return facts.cause == v1::EXIT_CAUSE_CRASHED ||
         (ExitLog::IsLimitEvent(facts.cause) && facts.quota_bytes > 0 &&
          facts.grown_bytes[thread] > facts.quota_bytes / 4);
}

// The lease that a thread reports, if the worker holds it.
std::optional<size_t> LeaseOf(const EndFacts& facts, const FlightSnapshot::Thread& thread) {
  for (size_t i = 0; i < facts.held.size(); ++i) {
    const PoolWorker::Held& lease = facts.held[i];
    if (lease.stream_id == thread.stream_id && lease.lease_id == thread.lease_id) return i;
  }
  return std::nullopt;
}

// "epoch 0, positions 16 to 31 of stream train"
std::string WorkAt(const internal::v1::Lease& lease, const Stream& stream) {
  const uint64_t first = lease.first_position() + lease.first_sample();
  return absl::StrCat("epoch ", lease.epoch(), ", positions ", first, " to ",
                      first + lease.count() - 1, " of stream ", stream.config().about.name());
}

}  // namespace

std::vector<int64_t> HungThreads(const FlightSnapshot& flight, absl::Duration limit,
                                 int64_t now_ns) {
  std::vector<int64_t> since_ns;
  for (const FlightSnapshot::Thread& thread : flight.threads) {
    const int64_t began_ns = thread.progress_ns();
    const bool hangs = thread.lease_id != 0 && thread.turn != FlightTurn::kWaiting &&
                       began_ns < now_ns && absl::Nanoseconds(now_ns - began_ns) > limit;
    since_ns.push_back(hangs ? began_ns : 0);
  }
  return since_ns;
}

std::vector<Suspicion> SuspicionsOf(const EndFacts& facts) {
  const std::vector<FlightSnapshot::Thread>& threads = facts.flight.threads;
  bool any_hung = false;
  for (size_t i = 0; i < threads.size(); ++i) any_hung |= Hung(facts, i);
  std::vector<Suspicion> suspicions;
  for (size_t i = 0; i < threads.size(); ++i) {
    const std::optional<size_t> held = LeaseOf(facts, threads[i]);
    if (!held.has_value()) continue;
    // If one thread was refused memory, or some hung, the others are not to blame.
    if (facts.flight.refused_thread >= 0 && facts.flight.refused_thread != static_cast<int>(i)) {
      continue;
    }
    if (any_hung && !Hung(facts, i)) continue;
    const Suspicion suspicion{*held, i, IsByItself(facts, i), Hung(facts, i)};
    const auto known = std::ranges::find_if(
        suspicions, [&](const Suspicion& other) { return other.held == *held; });
    if (known == suspicions.end()) {
      suspicions.push_back(suspicion);
    } else if (suspicion.by_itself && !known->by_itself) {
      *known = suspicion;
    }
  }
  if (!suspicions.empty()) return suspicions;
  for (size_t i = 0; i < facts.held.size() && i < facts.begun; ++i) {
    suspicions.push_back({i, std::nullopt, false, false});
  }
  return suspicions;
}

DeathFinding Blame::OnDeath(const PoolWorker& worker, const FlightSnapshot& flight,
                            v1::ExitCause cause, const std::string& reason) {
  EndFacts facts{cause, worker.held, flight, config_.quota_bytes, {}, worker.hung_since_ns, 0};
  for (size_t i = 0; i < flight.threads.size(); ++i) {
    facts.grown_bytes.push_back(worker.memory.GrownBy(flight, i));
  }
  for (const FlightSnapshot::Stage& stage : flight.stages) {
    if (stage.runs > 0) passed_.insert(stage.name);
  }
  // With whole batches, all threads work on the first one.
  facts.begun = config_.whole_batches ? 1 : config_.threads;
  DeathFinding first;
  for (const Suspicion& suspicion : SuspicionsOf(facts)) {
    const DeathFinding found = BlameLease(worker, flight, suspicion, cause, reason);
    // Without a thread's report the lease is only one of several candidates.
    if (first.work.empty() && suspicion.thread.has_value()) first = found;
  }
  return first;
}

bool Blame::OnIdleDeath(const Slot& slot) {
  // A passing fault may hit all places at once, so one place must have failed repeatedly.
  if (++idle_deaths_ < kMaxDeaths || slot.deaths < kMaxDeaths) return false;
  // While a worker is ready, the streams continue.
  return !crew_.AnyReady();
}

DeathFinding Blame::BlameLease(const PoolWorker& worker, const FlightSnapshot& flight,
                               const Suspicion& suspicion, v1::ExitCause cause,
                               const std::string& reason) {
  const PoolWorker::Held& held = worker.held[suspicion.held];
  const auto stream = streams_.Find(held.stream_id);
  if (stream == nullptr) return {};
  // With several threads at one lease, the sample at fault is unknown.
  const bool alone = worker.leases_given == 1 && !worker.rehearsed && !held.shared;
  const auto death = stream->NoteDeath(held.lease_id, worker.id, alone, suspicion.by_itself);
  if (!death.has_value()) return {};
  bool is_proof = false;
  std::string work = WorkAt(death->lease, *stream);
  // The worker may have written anything, so a sample outside the lease is ignored.
  const FlightSnapshot::Thread* thread =
      suspicion.thread.has_value() ? &flight.threads[*suspicion.thread] : nullptr;
  const uint64_t positions = stream->config().binding.samples_per_epoch();
  if (thread != nullptr && !LeaseCovers(death->lease, positions, thread->epoch, thread->position)) {
    thread = nullptr;
  }
  const std::string stage = thread != nullptr ? config_.WithCode(thread->stage) : "";
  if (thread != nullptr && !thread->sample.empty()) {
    work = absl::StrCat(stage, " of ", thread->sample, " (", work, ")");
  } else if (thread != nullptr && config_.whole_batches) {
    work = absl::StrCat(stage, " of the batch (", work, ")");
  }
  if (thread != nullptr && suspicion.hung) ReportHang(worker, *stream, *thread, work);
  const bool named = thread != nullptr && !thread->sample.empty() &&
                     thread->sample.size() < FlightThread::kSampleBytes;
  if (alone && suspicion.by_itself && named) {
    const uint32_t poisoned = ++poison_deaths_[stream->id()][thread->sample];
    is_proof = poisoned <= kPoisonDeaths;
    const std::string why =
        absl::StrCat(reason, " in ", stage, " at position ", thread->position, " of epoch ",
                     thread->epoch, AdviceFor(*thread, cause, reason));
    if (poisoned >= kPoisonDeaths && ExitLog::IsLimitEvent(cause) &&
        FailIfStarved(*stream, worker, flight, *thread)) {
      return {work, is_proof};
    }
    if (poisoned >= kPoisonDeaths && cause == v1::EXIT_CAUSE_CRASHED &&
        FailIfAllCrash(*stream, *thread, reason)) {
      return {work, is_proof};
    }
    // A record that is left out already did not end the worker, whatever the worker says.
    if (poisoned >= kPoisonDeaths && Quarantine(*stream, thread->sample, why, poisoned)) {
      return {work, is_proof};
    }
  }
  if (death->convicting + LeaseTable::kSuspectDeaths >= kMaxDeaths) {
    stream->Fail(CrashLoop(death->deaths, cause, reason, work));
  }
  return {work, is_proof};
}

std::string Blame::AdviceFor(const FlightSnapshot::Thread& thread, v1::ExitCause cause,
                             const std::string& reason) const {
  // A reason that names its own option needs no other.
  if (ExitLog::IsLimitEvent(cause) && !absl::StrContains(reason, " --")) {
    return absl::StrCat(" (if samples need as much, raise --worker-quota, now ",
                        FormatBytes(config_.quota_bytes), ")");
  }
  if (cause == v1::EXIT_CAUSE_HUNG) {
    return absl::StrCat(" (if samples take as long, raise --worker-hang-timeout, now ",
                        absl::FormatDuration(context_.timeouts.hang), ")");
  }
  if (cause == v1::EXIT_CAUSE_CRASHED && config_.stage_code.count(thread.stage) > 0) {
    return " (if other records end workers there, too, the code is to blame: bulkhead.try_stage "
           "runs a Python function in your own process, where a debugger works)";
  }
  return "";
}

bool Blame::FailIfStarved(Stream& stream, const PoolWorker& worker, const FlightSnapshot& flight,
                          const FlightSnapshot::Thread& thread) {
  Starved& starved = starved_[stream.id()][thread.stage];
  starved.records.insert(thread.sample);
  starved.needed_bytes =
      std::max(starved.needed_bytes, worker.memory.peak_bytes() + flight.refused_bytes);
  if (starved.records.size() < kAlikeRecords) return false;
  // With a quarter of reserve.
  const uint64_t needed = starved.needed_bytes + starved.needed_bytes / 4;
  const uint64_t advised = (needed / kAdvisedStep + 1) * kAdvisedStep;
  stream.Fail(MakeError(
      absl::StatusCode::kAborted, reason::kWorkerCrashLoop,
      absl::StrCat(starved.records.size(), " different records met the worker's quota of ",
                   FormatBytes(config_.quota_bytes), " in ", config_.WithCode(thread.stage),
                   ", each alone in fresh workers, the last one ", thread.sample,
                   ": the quota is too small for this pipeline. Raise --worker-quota to ",
                   FormatBytes(advised),
                   "; `bulkhead explain SPEC` with the same quota shows how much a worker holds"),
      {{"work", thread.stage}, {"cause", "quota"}}));
  return true;
}

bool Blame::FailIfAllCrash(Stream& stream, const FlightSnapshot::Thread& thread,
                           const std::string& reason) {
  if (config_.stage_code.count(thread.stage) == 0 || passed_.count(thread.stage) > 0) return false;
  std::set<std::string>& records = crashed_[stream.id()][thread.stage];
  records.insert(thread.sample);
  if (records.size() < kAlikeRecords) return false;
  stream.Fail(MakeError(
      absl::StatusCode::kAborted, reason::kWorkerCrashLoop,
      absl::StrCat(records.size(), " different records ended ", kPoisonDeaths, " workers each in ",
                   config_.WithCode(thread.stage),
                   ", and no sample passed it: its code ends workers, whatever the record. The "
                   "last one, ",
                   thread.sample, ": ", reason,
                   ". Run the code in a process of your own, where a debugger shows where it "
                   "ends: bulkhead.try_stage does so for a Python function"),
      {{"work", thread.stage}, {"cause", reason}}));
  return true;
}

void Blame::ReportHang(const PoolWorker& worker, Stream& stream,
                       const FlightSnapshot::Thread& thread, const std::string& work) const {
  if (stream.finished()) return;
  v1::SampleEvent event;
  event.set_kind(v1::SampleEvent::KIND_HUNG);
  event.set_epoch(thread.epoch);
  event.set_position(thread.position);
  event.set_record(thread.sample);
  event.set_message(absl::StrCat("worker ", worker.slot, " made no progress for ",
                                 absl::FormatDuration(context_.timeouts.hang), " at ", work,
                                 worker.stack.empty() ? "" : "; Python was at ", worker.stack,
                                 "; it was ended, and other workers do its work"));
  stream.config().observer->OnEvent(event);
}

bool Blame::Quarantine(Stream& stream, const std::string& record, const std::string& reason,
                       uint32_t deaths) const {
  if (!stream.Quarantine(record, reason, deaths)) return false;
  internal::v1::ToWorker message;
  *message.mutable_set_quarantine() = stream.quarantine();
  crew_.Send(message);
  return true;
}

absl::Status Blame::CrashLoop(uint32_t deaths, v1::ExitCause cause, const std::string& reason,
                              const std::string& work) const {
  std::string advice =
      absl::StrCat("If memory ran out, raise --worker-quota (now ",
                   FormatBytes(config_.quota_bytes), ") or lower decode_image.max_pixels");
  if (cause == v1::EXIT_CAUSE_HUNG) {
    advice = absl::StrCat(
        "The storage may hang. If such samples can take this long, raise --worker-hang-timeout "
        "(now ",
        absl::FormatDuration(context_.timeouts.hang), ")");
  } else if (cause == v1::EXIT_CAUSE_PROTOCOL && !config_.user_code.empty()) {
    advice =
        "Code of a stage disturbs the worker: it must leave descriptors that it did not open "
        "alone";
  }
  return MakeError(absl::StatusCode::kAborted, reason::kWorkerCrashLoop,
                   absl::StrCat("the same samples ended ", deaths,
                                " workers; the last one: ", reason, ", at ", work, ". ", advice),
                   {{"work", work}, {"cause", reason}});
}

}  // namespace bulkhead
