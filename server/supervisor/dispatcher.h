#ifndef BULKHEAD_SERVER_SUPERVISOR_DISPATCHER_H_
#define BULKHEAD_SERVER_SUPERVISOR_DISPATCHER_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "server/supervisor/crew.h"
#include "server/supervisor/pipeline_config.h"
#include "server/supervisor/pool_streams.h"

namespace bulkhead {

// Hands the leases of a pool's streams to its workers, and takes their word on them. A suspect is
// done alone, by a worker whose place is set apart for it. Lives on the supervisor's thread.
class Dispatcher {
 public:
  Dispatcher(const PipelineConfig& config, const Crew& crew, PoolStreams& streams)
      : config_(config), crew_(crew), streams_(streams) {}

  // Hands planned leases to workers that have room. False when nobody was given any.
  bool GiveLeases();
  // A worker's word on a lease. Samples that it adds to its stream; absent when it does not count.
  // A worker whose word cannot be true is killed.
  std::optional<uint32_t> OnDone(PoolWorker& worker, const internal::v1::LeaseDone& done);
  // INDEX_DAMAGED: no worker of this pool can go on, since all of them have that index mapped.
  absl::Status OnFailed(PoolWorker& worker, const internal::v1::LeaseFailed& failed);

  // The place that is set apart; null: none is.
  const Slot* set_apart() const { return set_apart_; }
  // The worker does no suspect any more: what it held goes to another.
  void StopSuspectAt(const PoolWorker& worker);
  void Park() { set_apart_ = nullptr; }
  // Samples that a worker may have to do before it can go.
  uint64_t most_held_samples() const { return uint64_t{config_.LeasesOfWorker()} * largest_lease_; }

 private:
  bool CanTakeLease(const PoolWorker* worker) const;
  // Whether one more lease may have a worker meet its quota that is about to be replaced: it waits
  // for its successor then.
  bool WaitsForSuccessor(const PoolWorker& worker) const;
  // Whether one more lease may have a worker with a fast leak meet its quota before it is looked
  // at: on a busy machine looks come late.
  bool WaitsForLook(const PoolWorker& worker) const;
  // Gives a suspect to the place that is set apart, or sets one apart. A place in which no worker
  // starts is given up for another.
  bool GiveSuspect();
  Slot* SlotToSetApart() const;
  bool Give(PoolWorker& worker, bool suspect);
  // One of the worker's leases was decided, whether or not its stream still lives. False when the
  // worker has no such lease.
  bool TakeBack(PoolWorker& worker, uint64_t stream_id, uint64_t lease_id);

  const PipelineConfig& config_;
  const Crew& crew_;
  PoolStreams& streams_;
  Slot* set_apart_ = nullptr;
  uint32_t largest_lease_ = 16;  // in samples, so far
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_DISPATCHER_H_
