#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "server/supervisor/pool/pool_part.h"

namespace bulkhead {

// Assigns the leases of a pool's streams to its workers, and takes their reports. A suspect is done
// alone, by a worker whose place is reserved for it. Lives on the supervisor's thread.
class Dispatcher : PoolPart {
 public:
  explicit Dispatcher(const PoolPart& pool) : PoolPart(pool) {}

  // Asks workers which bytes of objects the streams' next batches will read.
  void AskForInputs();
  // Assigns planned leases to workers with room. False if none was assigned.
  bool GiveLeases();
  // Takes a report on a lease. Returns the samples that it adds to its stream; absent if it does
  // not count. Kills a worker whose report cannot be true.
  std::optional<uint32_t> OnDone(PoolWorker& worker, const internal::v1::LeaseDone& done);
  // INDEX_DAMAGED: no worker of this pool can continue, since all map that index.
  absl::Status OnFailed(PoolWorker& worker, const internal::v1::LeaseFailed& failed);

  // Whether one more lease could take a worker with a fast leak to its quota before it is looked
  // at: on a busy machine looks are late.
  bool WaitsForLook(const PoolWorker& worker) const;

  // Whether even the shortest lease could take the worker to its quota. If it is or will be
  // replaced, its leases then wait for the successor.
  bool HasNoRoom(const PoolWorker& worker) const { return RoomOf(worker) < least_samples(); }

  // The reserved place; null: none.
  const Slot* set_apart() const { return set_apart_; }
  // Gives the worker no more suspects; another worker gets those that it held.
  void StopSuspectAt(const PoolWorker& worker) {
    if (set_apart_ != nullptr && set_apart_->worker.get() == &worker) set_apart_ = nullptr;
  }
  void ForgetSetApart() { set_apart_ = nullptr; }
  // Samples that a worker may have to do before it can go.
  uint64_t most_held_samples() const { return uint64_t{config_.LeasesOfWorker()} * largest_lease_; }
  // Samples of the shortest lease that can be given: one where leases may be split.
  uint64_t least_samples() const { return config_.whole_batches ? largest_lease_ : 1; }

 private:
  bool CanTakeLease(const PoolWorker* worker) const;
  // Whether it is or will be replaced.
  bool Ends(const PoolWorker& worker) const {
    const Slot& slot = crew_.SlotOf(worker);
    return slot.is_replaced() || slot.is_due;
  }
  // Samples given to the worker of which its memory, when it was last read, shows nothing.
  static uint64_t SamplesUnseen(const PoolWorker& worker);
  // Samples that fit into the worker's quota, as far as its growth shows; any number for one that
  // stays and does not grow.
  uint64_t RoomOf(const PoolWorker& worker) const;
  // Gives a suspect to the reserved place, or reserves one. A place where no worker starts is
  // exchanged for another.
  bool GiveSuspect();
  Slot* SlotToSetApart() const;
  bool Give(PoolWorker& worker, bool suspect);
  // Removes a decided lease from the worker, even if its stream is gone. False if the worker does
  // not hold it.
  bool TakeBack(PoolWorker& worker, uint64_t stream_id, uint64_t lease_id);

  Slot* set_apart_ = nullptr;
  uint32_t largest_lease_ = 16;  // in samples, so far
};

}  // namespace bulkhead
