#ifndef BULKHEAD_SERVER_SUPERVISOR_LEASE_TABLE_H_
#define BULKHEAD_SERVER_SUPERVISOR_LEASE_TABLE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// Who works on which samples of one stream, and which batches are done: the one place where a
// lease's state changes.
//
//   lease:  planned ──Assign──▶ assigned ──Complete──▶ ready          slot:  free ─BeginBatch─▶
//   filling
//              ▲                   │  └────Fail──────▶ failed                 ▲ │ all leases ready
//              └───WorkerGone──────┘                                          └─FreeSlot── out
//              ◀─TakeHead
//
// Batches are begun, assigned and taken in ascending order, so the oldest unfinished batch always
// has its slot and is worked on first: the stream cannot wedge. One slot is never filled in the
// normal way: it is kept for a batch whose slot is written off, because a worker that holds leases
// in it was killed and cannot be reaped. A slot leased to a worker goes to nobody else before
// WorkerGone, which may only be called when that worker was reaped. Pure: no clock, no I/O, no
// thread of its own; used by one thread.
class LeaseTable {
 public:
  using WorkerId = uint64_t;

  // `slot_count` ≥ 2, the reserved slot included.
  LeaseTable(uint64_t stream_id, uint32_t slot_count, uint32_t lease_samples);

  bool has_free_slot() const {
    // The last slot that is not lost is nobody's reserve: the stream would stand still.
    const bool keeps_reserve = lost_slots_.size() + 1 < slot_count_;
    return free_slots_.size() > (keeps_reserve ? 1 : 0);
  }
  // Puts the next batch into a free slot and plans its leases. Needs has_free_slot().
  void BeginBatch(const v1::BatchHeader& header);

  bool has_planned() const;
  // Gives the oldest planned lease to `worker`; absent when there is none.
  std::optional<internal::v1::Lease> Assign(WorkerId worker);

  // The worker's word on a lease it holds: Complete returns how many samples it was. Absent or
  // false, and nothing changes, when the worker does not hold it.
  std::optional<uint32_t> Complete(uint64_t lease_id, WorkerId worker,
                                   std::vector<internal::v1::Substitution> substitutions);
  bool Fail(uint64_t lease_id, WorkerId worker, const internal::v1::LeaseFailed& failure);

  // The worker was reaped: its leases are planned again. Returns how many.
  uint32_t WorkerGone(WorkerId worker);
  // The worker was killed and cannot be reaped: it may still write, so the slots in which it holds
  // leases are lost until WorkerGone. Their batches begin anew in other slots, the oldest first.
  // Others that hold leases of these batches are at work in the lost slots, too: a slot comes back
  // when each of them has reported or is gone. False when too few slots are left for that.
  bool WriteOff(WorkerId worker);
  // The oldest lease that `worker` holds; null when it holds none. Valid until the table changes.
  const internal::v1::Lease* OldestHeldBy(WorkerId worker) const;
  // Leases that `worker` holds.
  uint32_t HeldBy(WorkerId worker) const;

  // A batch whose leases are all ready, or one that failed.
  struct FinishedBatch {
    v1::BatchHeader header;
    uint32_t slot = 0;
    std::vector<internal::v1::Substitution> substitutions;  // by position
    std::optional<internal::v1::LeaseFailed> failure;       // of its first failed lease
  };
  // The oldest batch, if it is finished; its slot is out until FreeSlot (a failed batch's slot,
  // too).
  std::optional<FinishedBatch> TakeHead();
  // The slot may be filled again.
  void FreeSlot(uint32_t slot);

  // Batches begun and not taken.
  size_t pending() const { return batches_.size(); }
  uint32_t free_slots() const { return static_cast<uint32_t>(free_slots_.size()); }
  uint32_t out_slots() const { return out_slots_; }
  // Of the pending batches those that are finished.
  uint32_t finished() const;

 private:
  friend class LeaseTableInspector;  // of the model checker in tests/supervisor

  enum class LeaseState { kPlanned, kAssigned, kReady, kFailed };
  struct LeaseEntry {
    internal::v1::Lease lease;
    LeaseState state = LeaseState::kPlanned;
    WorkerId worker = 0;
    std::vector<internal::v1::Substitution> substitutions;
    internal::v1::LeaseFailed failure;
  };
  struct Batch {
    v1::BatchHeader header;
    uint32_t slot = 0;
    std::vector<LeaseEntry> leases;

    bool IsFinished() const;
  };

  // A slot from which its batch was moved away, and the leases whose workers may still write there.
  struct LostSlot {
    uint32_t slot = 0;
    std::vector<std::pair<WorkerId, uint64_t>> writers;
  };

  LeaseEntry* FindHeld(uint64_t lease_id, WorkerId worker);
  // `worker` does not write for that lease any more, or, without one, for any.
  void EndWriting(WorkerId worker, std::optional<uint64_t> lease_id);

  const uint64_t stream_id_;
  const uint32_t slot_count_;
  const uint32_t lease_samples_;
  std::deque<Batch> batches_;  // ascending
  std::deque<uint32_t> free_slots_;
  std::vector<LostSlot> lost_slots_;
  uint32_t out_slots_ = 0;
  uint64_t next_lease_id_ = 1;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_LEASE_TABLE_H_
