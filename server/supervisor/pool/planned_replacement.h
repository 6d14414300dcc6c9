#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/supervisor/pool/dispatcher.h"
#include "server/supervisor/pool/pool_part.h"
#include "server/supervisor/pool/replacement_log.h"
#include "server/supervisor/worker/worker_process.h"

namespace bulkhead {

// Replaces a pool's workers before they reach a limit. A successor starts beside the worker, warms
// up and takes over; then the old worker finishes its leases, ends, and is reaped. The whole
// service has one replacement under way at a time.
//
//   none ─Begin─▶ successor warms up ─TakeOver─▶ predecessor drains ─Stop─▶ OnExit ─▶ none
//                   └─▶ stands by ─────▲ └─Dismiss─▶ successor ends ─▶ OnExit ─▶ none
//
// A worker that grows for the first time in a pool's life may be filling a table, and stop before
// it is full. So its successor stands by until the worker is full, and is dismissed if the worker
// stops growing, if another replacement is more urgent, or after a while.
//
// Lives on the supervisor's thread.
class PlannedReplacement : PoolPart {
 public:
  // Starts another worker for a place.
  using SpawnFn = std::function<absl::StatusOr<std::unique_ptr<PoolWorker>>(Slot&)>;

  PlannedReplacement(const PoolPart& pool, const Dispatcher& dispatcher, SpawnFn spawn)
      : PoolPart(pool), dispatcher_(dispatcher), spawn_(std::move(spawn)) {}
  ~PlannedReplacement() { Leave(); }

  bool active() const { return slot_ != nullptr; }
  // Begins the replacement of the worker that is due first or, while one is under way, decides
  // about a successor that stands by.
  void BeginIfDue(int64_t now_ns);
  // A worker has met its quota, and no single sample was to blame.
  void NoteOutgrown() { outgrows_ = true; }
  // A successor was bound: makes it produce samples that are discarded.
  void WarmUp(PoolWorker& successor) const;
  // The successor takes over, now or when the worker is full.
  void OnWarmedUp(PoolWorker& worker, const internal::v1::WarmedUp& warmed_up);
  // Ends the predecessor once it holds no lease.
  void StopIfDrained();
  // A worker in role `standing` has ended and was removed from it. False: it was not part of a
  // replacement, or its successor has taken its place.
  bool OnExit(Crew::Standing standing, Slot& slot, const WorkerEnd& end);
  // A worker was written off; its replacement, if any, goes on without it.
  void GiveUp(PoolWorker& worker);
  // The pool ends or has failed: ends all replacing.
  void Leave();

  // "growing by … too fast to …" (TooFastToRecycle); empty: growth is slow enough.
  std::string WhyTooLate(const PoolWorker& worker, int64_t now_ns) const {
    return TooFastToRecycle(FactsOf(worker, now_ns));
  }

 private:
  RecycleFacts FactsOf(const PoolWorker& worker, int64_t now_ns) const;
  std::optional<RecycleDecision> DecideFor(const Slot& slot, int64_t now_ns) const;
  // The place whose worker is due first, with the reason; null: none is. Notes which workers wait
  // for their turn, and whether workers of this pool outgrow their quota.
  std::pair<Slot*, RecycleDecision> MostUrgent(int64_t now_ns);
  void Begin(Slot& slot, const RecycleDecision& decision);
  // Decides about a successor that stands by.
  void Reconsider(const RecycleDecision& most_urgent, int64_t now_ns);
  void Decide(const RecycleDecision& decision);
  void TakeOver();
  // Ends a successor that is not needed.
  void Dismiss();
  // The replacement was completed.
  void Report();
  // The replacement failed: delays the next one of that place.
  void PutOff(Slot& slot) const;
  // Lets others be replaced.
  void End() {
    slot_ = nullptr;
    context_.gate->Leave(this);
  }
  // Ends a replacement although both workers live. Its place in the budget stays taken until the
  // worker outside the pool is reaped.
  void KeepPlaceUntilReaped();

  const Dispatcher& dispatcher_;
  const SpawnFn spawn_;
  ReplacementLog log_{config_.name};
  Slot* slot_ = nullptr;  // the worker being replaced; null: none
  v1::Recycling record_;
  bool is_certain_ = false;    // the successor takes over as soon as it is warm
  bool is_dismissed_ = false;  // the successor is ending
  bool outgrows_ = false;      // workers of this pool do not stop growing below their quota
  int64_t drained_ns_ = 0;
  // Recent warm-up times; the longest counts.
  std::vector<absl::Duration> warm_ups_;
};

}  // namespace bulkhead
