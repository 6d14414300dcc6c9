#include "server/supervisor/pool/pool_tuning.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/os/process/process_usage.h"
#include "server/os/process/thread_priority.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kReadingInterval = absl::Milliseconds(500);
// A worker that another stream's memory depends on may finish leases for so long; then they are
// done again by others.
constexpr absl::Duration kLeasePatience = absl::Seconds(1);

bool IsReady(const Slot& slot) { return slot.worker != nullptr && slot.worker->is_ready(); }

}  // namespace

void PoolTuning::Look(int64_t now_ns) {
  StopIfDrained(now_ns);
  if (!tuner_.has_value() || Between(read_ns_, now_ns) < kReadingInterval) return;
  const auto decision = tuner_->Note(Read(now_ns));
  if (!decision.has_value()) return;
  if (decision->change > 0) Add(decision->change);
  for (int left = decision->change; left < 0 && GiveUp(/*leave_by_ns=*/0); ++left) {
  }
  StopIfDrained(now_ns);
  Tell(*decision, now_ns);
}

TuningReading PoolTuning::Read(int64_t now_ns) {
  TuningReading reading;
  // The first one is since the pool began, and says nothing.
  reading.seconds = read_ns_ == 0 ? 0 : absl::ToDoubleSeconds(Between(read_ns_, now_ns));
  read_ns_ = now_ns;
  reading.workers = crew_.staying();
  reading.steady = std::ranges::all_of(
      crew_.slots(), [](const auto& slot) { return IsReady(*slot) && !slot->leaves; });
  ReadWork(reading);
  reading.waited = std::min(ReadWait(now_ns), reading.seconds);
  reading.no_room = NoRoom();
  return reading;
}

void PoolTuning::ReadWork(TuningReading& reading) {
  std::map<LeaseTable::WorkerId, Work> works;
  crew_.ForEach([&](PoolWorker& worker) {
    const FlightSnapshot flight = worker.flight.Read();
    const Work before = works_[worker.id];
    Work& work = works[worker.id];
    for (const FlightSnapshot::Stage& stage : flight.stages)
      work.busy_seconds += stage.busy_seconds;
    work.samples = flight.samples;
    const pid_t pid = worker.process->pid();
    const auto usage = ReadProcessUsageFast(pid);
    // A worker that waits for a CPU would not be helped by another one, whoever uses the CPUs.
    work.cpu_seconds = usage.ok() ? usage->cpu_seconds + ReadCpuWaitSeconds(pid)
                                  : before.cpu_seconds;  // it has just ended
    reading.samples += work.samples - before.samples;
    reading.cpu_seconds += std::max(0.0, work.cpu_seconds - before.cpu_seconds);
    reading.busy += work.busy_seconds - before.busy_seconds;
  });
  reading.busy /= std::max(1u, reading.workers) * config_.threads;
  works_ = std::move(works);
}

double PoolTuning::ReadWait(int64_t now_ns) {
  double longest = 0;
  std::map<uint64_t, double> waits;
  for (const auto& stream : streams_.all()) {
    if (stream->config().meter == nullptr || stream->finished()) continue;
    const double waited = stream->config().meter->WaitedForWorkers(now_ns);
    longest = std::max(longest, waited - waits_[stream->id()]);
    waits[stream->id()] = waited;
  }
  waits_ = std::move(waits);
  return longest;
}

std::string PoolTuning::NoRoom() const {
  if (context_.budget->returning_bytes() > 0) {
    return "memory is on its way back to the budget, and others may wait for it";
  }
  const uint64_t free = context_.budget->free_bytes();
  if (free / 2 >= quota_bytes_) return "";
  return absl::StrCat("the memory budget has ", FormatBytes(free), " left; a further worker takes ",
                      FormatBytes(quota_bytes_), ", and tuning leaves as much to others");
}

void PoolTuning::Add(int workers) {
  for (; workers > 0 && NoRoom().empty(); --workers) {
    auto claim = context_.budget->AdmitWorker(quota_bytes_);
    if (!claim.ok()) return;
    context_.memory->Merge(*std::move(claim));
    start_(crew_.AddPlace());
  }
}

bool PoolTuning::GiveUp(int64_t leave_by_ns) {
  const auto& slots = crew_.slots();
  const auto going = std::find_if(slots.rbegin(), slots.rend(), [&](const auto& slot) {
    return !slot->leaves && !slot->is_replaced() && slot.get() != dispatcher_.set_apart();
  });
  if (going == slots.rend()) return false;
  Slot& slot = **going;
  slot.leaves = true;
  context_.loop->Cancel(std::exchange(slot.restart_timer, 0));
  MemoryClaim memory = context_.memory->Split(/*arena_bytes=*/0, quota_bytes_);
  if (slot.worker != nullptr) {
    memory.MarkReturning();
    slot.worker->claims->quota = std::move(memory);
    if (leave_by_ns != 0) leave_by_ns_ = leave_by_ns;
  }
  crew_.RemoveEmptyPlaces();
  return true;
}

uint64_t PoolTuning::spare_bytes() const {
  const uint32_t staying = crew_.staying();
  return tuner_.has_value() && staying > config_.workers
             ? (staying - config_.workers) * quota_bytes_
             : 0;
}

bool PoolTuning::GiveUpOne() {
  const int64_t now_ns = MonotonicNanos();
  const int64_t leave_by_ns = now_ns + absl::ToInt64Nanoseconds(kLeasePatience);
  if (spare_bytes() == 0 || !GiveUp(leave_by_ns)) return false;
  Tell({-1, v1::TUNING_STATE_GIVEN_UP, "another stream needs the memory"}, now_ns);
  StopIfDrained(now_ns);
  return true;
}

void PoolTuning::StopIfDrained(int64_t now_ns) {
  const bool late = leave_by_ns_ != 0 && now_ns >= leave_by_ns_;
  if (late) leave_by_ns_ = 0;
  for (const auto& slot : crew_.slots()) {
    PoolWorker* const worker = slot->worker.get();
    if (!slot->leaves || worker == nullptr) continue;
    if (worker->process->phase() >= WorkerPhase::kStopping) continue;
    if (late || worker->held.empty()) worker->process->Stop(context_.timeouts.stop_grace);
  }
}

void PoolTuning::Tell(TuningDecision decision, int64_t now_ns) {
  const bool is_news = decision.change != 0 || decision.state != state_;
  state_ = decision.state;
  text_ = std::move(decision.text);
  if (!is_news || !log_.Take(now_ns)) return;
  const uint32_t workers = crew_.staying();
  spdlog::info("pipeline {}: {} {} {}: {}", config_.name,
               decision.change == 0 ? "stays at" : "is tuned to", workers,
               workers == 1 ? "worker" : "workers", text_);
}

void PoolTuning::AppendStatus(v1::GetStatusResponse& response) const {
  if (!tuner_.has_value()) return;
  v1::WorkerTuning& tuning = *response.add_tunings();
  tuning.set_pipeline(config_.name);
  tuning.set_workers(crew_.staying());
  tuning.set_first_workers(config_.workers);
  tuning.set_most_workers(config_.tuning->most);
  tuning.set_state(state_);
  tuning.set_text(text_);
  if (config_.missing_workers > 0) {
    absl::StrAppend(tuning.mutable_text(), "; at first the memory budget held ", config_.workers,
                    " of ", config_.workers + config_.missing_workers);
  }
}

}  // namespace bulkhead
