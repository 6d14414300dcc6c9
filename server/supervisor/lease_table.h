#ifndef BULKHEAD_SERVER_SUPERVISOR_LEASE_TABLE_H_
#define BULKHEAD_SERVER_SUPERVISOR_LEASE_TABLE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/base/limits.h"

namespace bulkhead {

// Who works on which samples of one stream, and which batches are done: the one place where a
// lease's state changes.
//
//   lease:  planned ──Assign──▶ assigned ──Complete──▶ ready        slot:  free ─BeginBatch─▶
//   filling
//              ▲                   │  └────Fail──────▶ failed               ▲ │ all leases ready
//              └───WorkerGone──────┘                                        └─FreeSlot── out
//              ◀─TakeNext
//   RedoAll: ready and failed ──▶ planned, and assigned as well, when its worker reports or is gone
//
// Batches are begun and assigned in ascending order, so the oldest unfinished batch always has its
// slot and is worked on first: the stream cannot wedge. One slot is never filled in the normal way:
// it is kept for the head, should its slot be written off because a worker that holds leases in it
// was killed and cannot be reaped. A slot leased to a worker goes to nobody else before WorkerGone,
// which may only be called when that worker was reaped. Pure: no clock, no I/O, no thread of its
// own; used by one thread.
class LeaseTable {
 public:
  using WorkerId = uint64_t;

  // A lease at which this many workers died, or one by the lease's own doing, is a suspect: it is
  // given out as a suspect alone, to a worker that holds nothing else, so that it cannot bring
  // others into bad repute.
  static constexpr uint32_t kSuspectDeaths = 3;
  // Without order, a batch is taken at most this many batches before its turn.
  static constexpr uint64_t kMaxAhead = kMaxBatchesAhead;

  // `slot_count` ≥ 2, the reserved slot included. With `ordered` batches are taken in their order,
  // else as they are finished.
  LeaseTable(uint64_t stream_id, uint32_t slot_count, uint32_t lease_samples, bool ordered = true);

  bool has_free_slot() const {
    // The last slot that is not lost is nobody's reserve: the stream would stand still.
    const bool keeps_reserve = lost_slots_.size() + 1 < slot_count_;
    return free_slots_.size() > (keeps_reserve ? 1 : 0);
  }
  // Puts the next batch into a free slot and plans its leases. Needs has_free_slot().
  void BeginBatch(const v1::BatchHeader& header);

  // Planned leases, suspects not counted; and suspects.
  bool has_planned() const { return !planned_.empty(); }
  bool has_suspect() const { return !suspects_.empty(); }
  // Gives the oldest planned lease, or the oldest suspect, to `worker`; absent when there is none.
  std::optional<internal::v1::Lease> Assign(WorkerId worker, bool suspect = false);

  // A lease that the worker holds; absent when it does not.
  std::optional<internal::v1::Lease> HeldLease(uint64_t lease_id, WorkerId worker) const;

  // The worker's word on a lease it holds: Complete returns how many samples it was. Absent or
  // false, and nothing changes, when the worker does not hold it.
  std::optional<uint32_t> Complete(uint64_t lease_id, WorkerId worker,
                                   std::vector<internal::v1::Substitution> substitutions);
  bool Fail(uint64_t lease_id, WorkerId worker, const internal::v1::LeaseFailed& failure);

  // How often workers died at a lease.
  struct Death {
    internal::v1::Lease lease;
    uint32_t deaths = 0;
    uint32_t convicting = 0;  // of those, the ones for which nothing else can be to blame
  };
  // The worker died, or was killed, while it worked on that lease; to be followed by WorkerGone or
  // WriteOff. `alone`: the lease was the only one that the worker was ever given. `by_itself`: the
  // lease brought it about, as far as can be seen. Absent when it does not hold the lease.
  std::optional<Death> NoteDeath(uint64_t lease_id, WorkerId worker, bool alone = false,
                                 bool by_itself = false);

  // The worker was reaped: its leases are planned again. Returns how many.
  uint32_t WorkerGone(WorkerId worker);
  // The worker was killed and cannot be reaped: it may still write, so the slots in which it holds
  // leases are lost until WorkerGone. Their batches begin anew in other slots: the head at once, in
  // the reserved slot if need be, the others as slots become free. Others that hold leases of these
  // batches are at work in the lost slots, too: a slot comes back when each of them has reported or
  // is gone. False when the head has no slot to move to and none is out that could come back.
  bool WriteOff(WorkerId worker);

  // What the leases are done by has changed: all of them are done anew. Those that workers are at
  // now are planned again when these report or are gone. Deaths at them are forgotten.
  // Suspects stay suspects, unless they were tried alone: then their culprit is what was found.
  void RedoAll();

  // A batch whose leases are all ready, or one that failed.
  struct FinishedBatch {
    v1::BatchHeader header;
    uint32_t slot = 0;
    std::vector<internal::v1::Substitution> substitutions;  // by position
    std::optional<internal::v1::LeaseFailed> failure;       // of its first failed lease
    uint64_t older = 0;                                     // pending batches that stand before it
  };
  // The oldest batch, if it is finished; without order, the oldest finished one of the head's epoch
  // within kMaxAhead, where a failed one must be the head. Its slot is out until FreeSlot (a failed
  // batch's slot, too).
  std::optional<FinishedBatch> TakeNext();
  // The slot may be filled again.
  void FreeSlot(uint32_t slot);

  // Batches begun and not taken.
  size_t pending() const { return batches_.size(); }
  // Sequence of the oldest of them.
  std::optional<uint64_t> head_sequence() const;
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
    bool outdated = false;  // assigned before the last RedoAll
    uint32_t deaths = 0;
    uint32_t convicting_deaths = 0;
    bool suspect = false;
    std::vector<internal::v1::Substitution> substitutions;
    internal::v1::LeaseFailed failure;
  };
  struct Batch {
    v1::BatchHeader header;
    uint32_t slot = 0;
    std::vector<LeaseEntry> leases;
    size_t undecided = 0;  // leases that are neither ready nor failed
    bool failed = false;   // one of them did

    bool IsFinished() const { return undecided == 0; }
  };
  using BatchMap = std::map<uint64_t, Batch>;  // by the order in which they were begun

  // Where a lease stands.
  struct Place {
    uint64_t batch = 0;  // key of batches_
    size_t lease = 0;
    bool operator<(const Place& other) const {
      return std::tie(batch, lease) < std::tie(other.batch, other.lease);
    }
  };

  // A slot from which its batch was moved away, and the leases whose workers may still write there.
  struct LostSlot {
    uint32_t slot = 0;
    std::vector<std::pair<WorkerId, uint64_t>> writers;
  };

  LeaseEntry& At(const Place& place) { return batches_.at(place.batch).leases[place.lease]; }
  const LeaseEntry& At(const Place& place) const {
    return batches_.at(place.batch).leases[place.lease];
  }
  LeaseEntry* FindHeld(uint64_t lease_id, WorkerId worker);
  // A held lease is ready, or failed. False when it is planned again instead, being outdated.
  bool Decide(LeaseEntry& entry, LeaseState state);
  void Plan(const Place& place);
  // `worker` does not write for that lease any more, or, without one, for any.
  void EndWriting(WorkerId worker, std::optional<uint64_t> lease_id);
  // The batches in which workers hold leases that were written off.
  std::set<uint64_t> StuckBatches();
  // Moves those for which there are slots.
  void MoveStuckBatches();
  void MoveBatch(uint64_t number, Batch& batch);
  // The batch that TakeNext takes; end when there is none.
  BatchMap::iterator FindNext();

  const uint64_t stream_id_;
  const uint32_t slot_count_;
  const uint32_t lease_samples_;
  const bool ordered_;
  BatchMap batches_;
  uint64_t next_batch_ = 0;
  std::set<Place> planned_;
  std::set<Place> suspects_;
  std::map<uint64_t, Place> assigned_;  // by lease_id
  std::set<WorkerId> written_off_;
  std::deque<uint32_t> free_slots_;
  std::vector<LostSlot> lost_slots_;
  uint32_t out_slots_ = 0;
  uint64_t next_lease_id_ = 1;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_LEASE_TABLE_H_
