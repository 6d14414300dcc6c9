#include "server/supervisor/pool/planned_replacement.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/supervisor/worker/worker_usage.h"

namespace bulkhead {
namespace {

// Number of remembered warm-ups, and the margin for the next one.
constexpr size_t kWarmUpsKept = 4;
constexpr double kWarmUpMargin = 1.5;
// Spawning and warming up take this much longer than a worker's first start did.
constexpr absl::Duration kFirstWarmUpMargin = absl::Milliseconds(50);
// A successor that stands by is dismissed after this long.
constexpr absl::Duration kStandbyPatience = absl::Seconds(10);

double Seconds(int64_t from_ns, int64_t to_ns) {
  return absl::ToDoubleSeconds(Between(from_ns, to_ns));
}

}  // namespace

RecycleFacts PlannedReplacement::FactsOf(const PoolWorker& worker, int64_t now_ns) const {
  absl::Duration warm_up = Between(worker.spawned_ns, worker.bound_ns) + kFirstWarmUpMargin;
  if (!warm_ups_.empty()) warm_up = *std::ranges::max_element(warm_ups_);
  RecycleFacts facts;
  facts.growth = &worker.memory.growth();
  facts.quota_bytes = config_.quota_bytes;
  facts.slot = worker.slot;
  facts.slot_count = static_cast<uint32_t>(crew_.slots().size());
  facts.held_samples = dispatcher_.most_held_samples();
  facts.least_samples = dispatcher_.least_samples();
  facts.outgrows = outgrows_ || worker.keeps_growing;
  // Those ahead in the line warm up first.
  facts.warm_up = (warm_up * kWarmUpMargin + context_.timeouts.watch) *
                  static_cast<int64_t>(1 + context_.gate->waiting());
  facts.age = Between(worker.bound_ns, now_ns);
  return facts;
}

std::optional<RecycleDecision> PlannedReplacement::DecideFor(const Slot& slot,
                                                             int64_t now_ns) const {
  const PoolWorker* const worker = slot.worker.get();
  if (worker == nullptr || !worker->is_ready() || slot.leaves || &slot == dispatcher_.set_apart() ||
      now_ns < slot.no_replacement_before_ns) {
    return std::nullopt;
  }
  auto decision = DecideRecycling(context_.recycle, FactsOf(*worker, now_ns));
  if (decision.has_value() && decision->is_certain) return decision;
  const double left = static_cast<double>(config_.quota_bytes);  // more than any growth leaves
  if (slot.probed) {
    return RecycleDecision{v1::RECYCLE_CAUSE_PROBE,
                           "to see whether its successor's memory grows alike", left};
  }
  if (slot.asked) return RecycleDecision{v1::RECYCLE_CAUSE_REQUEST, "requested by hand", left};
  if (!slot.slow.empty()) return RecycleDecision{v1::RECYCLE_CAUSE_SLOWDOWN, slot.slow, left};
  if (now_ns < slot.no_standby_before_ns) return std::nullopt;
  return decision;
}

std::pair<Slot*, RecycleDecision> PlannedReplacement::MostUrgent(int64_t now_ns) {
  std::pair<Slot*, RecycleDecision> most{nullptr, {}};
  const auto rank = [](const RecycleDecision& decision) {
    return std::make_pair(!decision.is_certain, decision.samples_left);
  };
  for (const auto& slot : crew_.slots()) {
    const auto decision = DecideFor(*slot, now_ns);
    const bool grows = decision.has_value() && decision->cause == v1::RECYCLE_CAUSE_GROWTH;
    slot->is_due = grows && active();
    if (!decision.has_value()) continue;
    outgrows_ = outgrows_ || (grows && decision->is_certain);
    if (most.first == nullptr || rank(*decision) < rank(most.second)) {
      most = {slot.get(), *decision};
    }
  }
  return most;
}

void PlannedReplacement::BeginIfDue(int64_t now_ns) {
  log_.WriteDue(now_ns);
  const auto [due, decision] = MostUrgent(now_ns);
  if (active()) {
    Reconsider(decision, now_ns);
  } else if (due == nullptr) {
    context_.gate->Leave(this);
  } else if (context_.gate->TryEnter(this)) {
    Begin(*due, decision);
  }
}

void PlannedReplacement::Reconsider(const RecycleDecision& most_urgent, int64_t now_ns) {
  const bool waits = slot_->successor != nullptr && slot_->worker != nullptr && !is_dismissed_;
  if (!waits || is_certain_) return;
  const auto decision = DecideFor(*slot_, now_ns);
  const PoolWorker& successor = *slot_->successor;
  if (decision.has_value() && decision->is_certain) {
    Decide(*decision);
    if (successor.warm_ns != 0) TakeOver();
  } else if (!decision.has_value() || most_urgent.is_certain || context_.gate->waiting() > 0 ||
             (successor.warm_ns != 0 && Between(successor.warm_ns, now_ns) > kStandbyPatience)) {
    Dismiss();
  }
}

void PlannedReplacement::Decide(const RecycleDecision& decision) {
  is_certain_ = decision.is_certain;
  record_.set_cause(decision.cause);
  record_.set_reason(decision.reason);
}

void PlannedReplacement::Dismiss() {
  is_dismissed_ = true;
  slot_->no_standby_before_ns =
      MonotonicNanos() +
      absl::ToInt64Nanoseconds(context_.timeouts.Backoff(++slot_->unneeded_successors + 1));
  slot_->successor->process->Stop(context_.timeouts.stop_grace);
}

void PlannedReplacement::Begin(Slot& slot, const RecycleDecision& decision) {
  slot.grew_by = slot.worker->memory.BytesPerSample();
  auto successor = spawn_(slot);
  if (!successor.ok()) {
    // The budget, descriptors or processes ran out: the old worker goes on as long as it can.
    PutOff(slot);
    context_.gate->Leave(this);
    spdlog::warn("worker {} of pipeline {} is due ({}), but no successor could be started: {}",
                 slot.index, config_.name, decision.reason,
                 std::string(successor.status().message()));
    return;
  }
  slot_ = &slot;
  slot.successor = *std::move(successor);
  drained_ns_ = 0;
  is_dismissed_ = false;
  record_.Clear();
  record_.set_pipeline(config_.name);
  record_.set_slot(slot.index);
  record_.set_generation(slot.worker->generation);
  Decide(decision);
}

void PlannedReplacement::PutOff(Slot& slot) const {
  slot.no_replacement_before_ns =
      MonotonicNanos() +
      absl::ToInt64Nanoseconds(context_.timeouts.Backoff(++slot.failed_replacements + 1));
}

void PlannedReplacement::WarmUp(PoolWorker& successor) const {
  internal::v1::ToWorker message;
  internal::v1::WarmUp& warm_up = *message.mutable_warm_up();
  // A sample that ended the last successor would end this one too.
  if (crew_.SlotOf(successor).failed_replacements == 0) {
    for (const auto& stream : streams_.all()) {
      const auto next = stream->NextPosition();
      if (!next.has_value()) continue;
      internal::v1::WarmUp::Position& position = *warm_up.add_positions();
      position.set_stream_id(stream->id());
      position.set_epoch(next->first);
      position.set_position(next->second);
    }
  }
  successor.rehearsed = !warm_up.positions().empty();
  successor.process->Send(message);
}

void PlannedReplacement::OnWarmedUp(PoolWorker& worker, const internal::v1::WarmedUp& warmed_up) {
  worker.warm_ns = MonotonicNanos();
  if (!active() || slot_->successor.get() != &worker) return;
  if (slot_->worker == nullptr || is_dismissed_) return;  // e.g. its pool has failed: all end
  if (warm_ups_.size() == kWarmUpsKept) warm_ups_.erase(warm_ups_.begin());
  warm_ups_.push_back(Between(worker.spawned_ns, worker.warm_ns));
  record_.set_start_seconds(Seconds(worker.spawned_ns, worker.hello_ns));
  record_.set_bind_seconds(Seconds(worker.hello_ns, worker.bound_ns));
  record_.set_warm_seconds(Seconds(worker.bound_ns, worker.warm_ns));
  // The worker's report: it may be no number, or exceed the total.
  const bool can_be =
      warmed_up.touch_seconds() >= 0 && warmed_up.touch_seconds() <= record_.warm_seconds();
  record_.set_touch_seconds(can_be ? warmed_up.touch_seconds() : 0);
  if (is_certain_) TakeOver();
}

void PlannedReplacement::TakeOver() {
  // Better known now than when the successor was started.
  slot_->grew_by = slot_->worker->memory.BytesPerSample();
  slot_->successor->memory.growth().Expect(slot_->grew_by);
  slot_->worker->outgrew = record_.cause() == v1::RECYCLE_CAUSE_GROWTH;
  slot_->predecessor = std::move(slot_->worker);
  slot_->Install(std::move(slot_->successor));
  slot_->failed_replacements = 0;
}

void PlannedReplacement::StopIfDrained() {
  if (!active() || slot_->predecessor == nullptr || drained_ns_ != 0) return;
  PoolWorker& old = *slot_->predecessor;
  if (!old.held.empty()) return;
  drained_ns_ = MonotonicNanos();
  AppendStages(old.flight.Read(), *record_.mutable_stages());
  record_.set_memory_bytes(old.memory.growth().used_bytes());
  old.process->Stop(context_.timeouts.stop_grace);
}

bool PlannedReplacement::OnExit(Crew::Standing standing, Slot& slot, const WorkerEnd& end) {
  switch (standing) {
    case Crew::Standing::kSuccessor:
      if (!is_dismissed_) {
        PutOff(slot);
        spdlog::warn("the successor of worker {} of pipeline {} failed: {}", slot.index,
                     config_.name, end.reason);
      }
      End();
      return true;
    case Crew::Standing::kPredecessor:
      if (end.as_told) Report();
      End();
      BeginIfDue(MonotonicNanos());
      return true;
    case Crew::Standing::kLost:
      return true;
    case Crew::Standing::kInPlace:
      break;
  }
  if (slot.successor == nullptr || is_dismissed_) return false;
  // A replacement is already starting.
  slot.Install(std::move(slot.successor));
  ++slot.deaths;
  End();
  return true;
}

void PlannedReplacement::Report() {
  record_.mutable_time()->set_seconds(absl::ToUnixSeconds(absl::Now()));
  record_.set_reap_seconds(Seconds(drained_ns_, MonotonicNanos()));
  log_.Note(record_, MonotonicNanos());
  streams_.Count(StreamNotes::kReplacement,
                 absl::StrCat("worker ", record_.slot(), ": ", record_.reason()));
  context_.exits->AddRecycling(std::move(record_));
}

void PlannedReplacement::GiveUp(PoolWorker& worker) {
  const Crew::Standing standing = crew_.StandingOf(worker);
  const bool successor = standing == Crew::Standing::kSuccessor;
  if (!successor && standing != Crew::Standing::kPredecessor) return;
  if (successor) PutOff(*slot_);
  // Two processes share the place until this one is reaped, so it needs a quota of its own.
  auto quota = context_.budget->AdmitWorker(config_.quota_bytes);
  if (quota.ok()) {
    worker.claims->quota = *std::move(quota);
  } else {
    KeepPlaceUntilReaped();
    context_.gate->NoteStuck(worker.claims->place.get());
  }
  crew_.Lose(crew_.TakeOut(worker));
  End();
}

void PlannedReplacement::KeepPlaceUntilReaped() {
  const PoolWorker* extra =
      slot_->successor != nullptr ? slot_->successor.get() : slot_->predecessor.get();
  if (extra == nullptr || extra->claims->place != nullptr) return;
  PoolWorker::Claims* const claims = extra->claims.get();
  context_.gate->PassTo(claims, this);
  claims->place = std::shared_ptr<const void>(
      claims, [gate = context_.gate](const void* holder) { gate->Leave(holder); });
}

void PlannedReplacement::Leave() {
  if (active()) KeepPlaceUntilReaped();
  context_.gate->Leave(this);
  log_.End();
}

}  // namespace bulkhead
