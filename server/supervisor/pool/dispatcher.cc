#include "server/supervisor/pool/dispatcher.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "server/arena/worker_error.h"
#include "server/base/error.h"
#include "server/supervisor/memory/recycle_policy.h"

namespace bulkhead {

void Dispatcher::AskForInputs() {
  const int64_t now_ns = MonotonicNanos();
  for (const auto& stream : streams_.all()) {
    if (stream->finished() || stream->inputs() == nullptr) continue;
    for (const auto& slot : crew_.slots()) {
      PoolWorker* const worker = slot->worker.get();
      if (worker == nullptr || !worker->is_ready() || slot->leaves) continue;
      if (stream->inputs()->IsSilent(worker->id, now_ns)) {
        worker->process->Kill(v1::EXIT_CAUSE_HUNG, "it does not answer the service");
        continue;
      }
      while (auto survey = stream->inputs()->NextSurvey(worker->id, now_ns)) {
        survey->set_stream_id(stream->id());
        internal::v1::ToWorker message;
        *message.mutable_survey() = *std::move(survey);
        worker->process->Send(message);
      }
    }
  }
}

bool Dispatcher::GiveLeases() {
  bool given = GiveSuspect();
  while (true) {
    PoolWorker* best = nullptr;
    for (const auto& slot : crew_.slots()) {
      PoolWorker* const worker = slot->worker.get();
      if (!CanTakeLease(worker) || slot.get() == set_apart_ || slot->leaves) continue;
      if (best == nullptr || worker->held.size() < best->held.size()) best = worker;
    }
    if (best == nullptr || !Give(*best, /*suspect=*/false)) return given;
    given = true;
  }
}

bool Dispatcher::CanTakeLease(const PoolWorker* worker) const {
  return worker != nullptr && worker->is_ready() &&
         worker->held.size() < config_.LeasesOfWorker() && !(Ends(*worker) && HasNoRoom(*worker)) &&
         !WaitsForLook(*worker);
}

uint64_t Dispatcher::SamplesUnseen(const PoolWorker& worker) {
  return worker.samples_given - std::min(worker.memory.growth().samples(), worker.samples_given);
}

uint64_t Dispatcher::RoomOf(const PoolWorker& worker) const {
  const MemoryGrowth& growth = worker.memory.growth();
  const uint64_t quota = config_.quota_bytes;
  if (quota == 0 || growth.used_bytes() < quota / 2) return LeaseTable::kWholeLease;
  if (!Ends(worker) && growth.LastingBytesPerSample() <= 0) return LeaseTable::kWholeLease;
  const uint64_t room = SamplesUntilFull(growth, quota);
  return room - std::min(room, SamplesUnseen(worker));
}

bool Dispatcher::WaitsForLook(const PoolWorker& worker) const {
  if (config_.quota_bytes == 0 || worker.samples_given == worker.samples_seen) return false;
  const double growth = worker.memory.LikelyBytesPerSample() *
                        static_cast<double>(SamplesUnseen(worker) + largest_lease_);
  const auto quota = static_cast<double>(config_.quota_bytes);
  if (growth < (1 - RecycleConfig::kQuotaShare) * quota) return false;  // no fast leak
  // A look during work is needed to know what it holds besides a leak.
  return worker.memory.growth().samples() == 0 ||
         static_cast<double>(worker.memory.growth().used_bytes()) + growth >=
             RecycleConfig::kLookShare * quota;
}

bool Dispatcher::GiveSuspect() {
  if (set_apart_ == nullptr || !set_apart_->Starts()) set_apart_ = SlotToSetApart();
  if (set_apart_ == nullptr) return false;
  PoolWorker* const worker = set_apart_->worker.get();
  if (!CanTakeLease(worker) || !worker->held.empty()) return false;
  if (Give(*worker, /*suspect=*/true)) return true;
  set_apart_ = nullptr;
  return false;
}

Slot* Dispatcher::SlotToSetApart() const {
  if (!streams_.has_suspect()) return nullptr;
  // Prefers a fresh worker, or a place that will have one; else the worker that will finish first,
  // and be succeeded by a fresh one.
  const auto rank = [](const Slot& slot) {
    const PoolWorker* const worker = slot.worker.get();
    const bool comes = worker == nullptr || !worker->bound;
    const bool used = !comes && (worker->leases_given > 0 || worker->rehearsed);
    return std::make_tuple(!slot.Starts(), used, comes, comes ? 0 : worker->held.size());
  };
  Slot* best = nullptr;
  for (const auto& slot : crew_.slots()) {
    const PoolWorker* const worker = slot->worker.get();
    const bool ends =
        worker != nullptr && (worker->written_off || (worker->bound && !worker->is_ready()));
    if (ends || slot->leaves) continue;
    if (best == nullptr || rank(*slot) < rank(*best)) best = slot.get();
  }
  return best;
}

bool Dispatcher::Give(PoolWorker& worker, bool suspect) {
  const bool is_whole = suspect || config_.whole_batches;
  const uint64_t most = is_whole ? LeaseTable::kWholeLease : std::max<uint64_t>(1, RoomOf(worker));
  const auto lease = streams_.Assign(worker.id, suspect, most);
  if (!lease.has_value()) return false;
  internal::v1::ToWorker message;
  *message.mutable_lease() = *lease;
  // An idle worker makes no progress but does not hang.
  if (worker.held.empty()) worker.last_progress_ns = MonotonicNanos();
  const bool shared = config_.whole_batches && !lease->one_thread() && config_.threads > 1;
  worker.held.push_back({lease->stream_id(), lease->lease_id(), lease->count(), shared});
  largest_lease_ = std::max(largest_lease_, lease->count());
  ++worker.leases_given;
  worker.samples_given += lease->count();
  worker.process->Send(message);
  return true;
}

bool Dispatcher::TakeBack(PoolWorker& worker, uint64_t stream_id, uint64_t lease_id) {
  const auto found = std::ranges::find_if(worker.held, [&](const PoolWorker::Held& held) {
    return held.stream_id == stream_id && held.lease_id == lease_id;
  });
  if (found == worker.held.end()) return false;
  worker.held.erase(found);
  worker.last_progress_ns = MonotonicNanos();
  crew_.SlotOf(worker).deaths = 0;
  if (worker.held.empty()) StopSuspectAt(worker);
  return true;
}

std::optional<uint32_t> Dispatcher::OnDone(PoolWorker& worker,
                                           const internal::v1::LeaseDone& done) {
  const std::shared_ptr<Stream> stream = streams_.Find(done.stream_id());
  if (stream != nullptr) {
    // The worker still holds the lease, so another will do it again.
    if (const absl::Status word = stream->CheckWord(done, worker.id); !word.ok()) {
      worker.process->Kill(v1::EXIT_CAUSE_PROTOCOL,
                           absl::StrCat("it broke the protocol: ", std::string(word.message())));
      return std::nullopt;
    }
  }
  if (!TakeBack(worker, done.stream_id(), done.lease_id()) || stream == nullptr) {
    return std::nullopt;
  }
  return stream->Complete(done, worker.id);
}

absl::Status Dispatcher::OnFailed(PoolWorker& worker, const internal::v1::LeaseFailed& failed) {
  if (!TakeBack(worker, failed.stream_id(), failed.lease_id())) return absl::OkStatus();
  if (failed.error().reason() == reason::kIndexDamaged) {
    return StatusFromWorkerError(failed.error());
  }
  if (const auto stream = streams_.Find(failed.stream_id())) stream->FailLease(failed, worker.id);
  return absl::OkStatus();
}

}  // namespace bulkhead
