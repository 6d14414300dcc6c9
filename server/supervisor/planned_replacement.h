#ifndef BULKHEAD_SERVER_SUPERVISOR_PLANNED_REPLACEMENT_H_
#define BULKHEAD_SERVER_SUPERVISOR_PLANNED_REPLACEMENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/supervisor/crew.h"
#include "server/supervisor/dispatcher.h"
#include "server/supervisor/pipeline_config.h"
#include "server/supervisor/pool_context.h"
#include "server/supervisor/pool_streams.h"
#include "server/supervisor/worker_process.h"

namespace bulkhead {

// Replaces a pool's workers before they break: a successor starts beside the worker, warms up and
// takes over; then the old one finishes the leases that it holds, ends, and is reaped. The whole
// service has one replacement under way at a time.
//
//   none ─Begin─▶ successor warms up ─OnWarmedUp─▶ predecessor drains ─Stop─▶ OnExit ─▶ none
//
// Lives on the supervisor's thread.
class PlannedReplacement {
 public:
  // Starts one more worker of a place.
  using SpawnFn = std::function<absl::StatusOr<std::unique_ptr<PoolWorker>>(Slot&)>;

  PlannedReplacement(const PoolContext& context, const PipelineConfig& config, Crew& crew,
                     const Dispatcher& dispatcher, SpawnFn spawn)
      : context_(context),
        config_(config),
        crew_(crew),
        dispatcher_(dispatcher),
        spawn_(std::move(spawn)) {}
  ~PlannedReplacement() { Leave(); }

  bool active() const { return slot_ != nullptr; }
  // Begins the replacement of the worker that is due first, if one is and none is under way.
  void BeginIfDue(int64_t now_ns);
  // A successor was bound: has it produce samples that nobody gets.
  void WarmUp(PoolWorker& successor, const PoolStreams& streams) const;
  // The successor takes over.
  void OnWarmedUp(PoolWorker& worker, const internal::v1::WarmedUp& warmed_up);
  // Ends the predecessor once it holds no lease.
  void StopIfDrained();
  // A worker ended, which stood so, and is taken out by now. False: it was no part of a
  // replacement, or its successor has taken its place.
  bool OnExit(Crew::Standing standing, Slot& slot, const WorkerEnd& end);
  // A worker was written off: a replacement that it is part of goes on without it.
  void GiveUp(PoolWorker& worker);
  // The pool ends, or has failed: nobody is replaced any more.
  void Leave();

  // "growing by … too fast to …" (TooFastToRecycle); empty: it is not.
  std::string WhyTooLate(const PoolWorker& worker, int64_t now_ns) const;

 private:
  RecycleFacts FactsOf(const PoolWorker& worker, int64_t now_ns) const;
  std::optional<RecycleDecision> DecideFor(const Slot& slot, int64_t now_ns) const;
  void Begin(Slot& slot, const RecycleDecision& decision);
  // It came to its end as planned.
  void Report();
  // One came to nothing: the place's next one has to wait.
  void PutOff(Slot& slot) const;
  // Others may be replaced.
  void End();
  // A replacement ends although its two workers live: its place in the budget stays taken until the
  // one that has none in the pool was reaped.
  void KeepPlaceUntilReaped();

  const PoolContext& context_;
  const PipelineConfig& config_;
  Crew& crew_;
  const Dispatcher& dispatcher_;
  const SpawnFn spawn_;
  Slot* slot_ = nullptr;  // whose worker is replaced; null: none is
  v1::Recycling record_;
  int64_t drained_ns_ = 0;
  // How long the last replacements took to warm up; the longest counts.
  std::vector<absl::Duration> warm_ups_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_PLANNED_REPLACEMENT_H_
