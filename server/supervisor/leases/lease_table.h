#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/base/limits.h"

namespace bulkhead {

// Samples of a lease: few, so that all threads are busy until a batch ends, unless the batch is
// large or one worker does the `whole` of it.
uint32_t SamplesOfLease(uint64_t batch_size, bool whole);

// Who works on which samples of one stream, and which batches are done: the one place where a
// lease's state changes.
//
//   lease:  planned ──Assign──▶ assigned ──Complete──▶ ready
//              ▲                   │  └────Fail──────▶ failed
//              └───WorkerGone──────┘
//   slot:   free ──BeginBatch──▶ filling ──TakeNext, all leases ready──▶ out ──FreeSlot──▶ free
//   RedoAll: ready and failed ──▶ planned; assigned too, once its worker reports or is gone
//
// Batches are begun and assigned in ascending order, so the oldest unfinished batch always has a
// slot and is worked on first: the stream cannot get stuck. One slot is reserved for the head. It
// is used when the head's slot is written off, because a killed worker that holds leases in it
// cannot be reaped. A slot leased to a worker is not reused before WorkerGone, which may only be
// called once that worker is reaped. Pure: no clock, no I/O, no thread; used by one thread.
class LeaseTable {
 public:
  using WorkerId = uint64_t;

  // Deaths that make a lease a suspect; one is enough if the lease itself caused it. A suspect is
  // given alone to a worker that holds nothing else, so that no other lease is blamed for it.
  static constexpr uint32_t kSuspectDeaths = 3;
  // With `ordered` false, a batch is taken at most this many batches before its turn.
  static constexpr uint64_t kMaxAhead = kMaxBatchesAhead;
  // For Assign: a lease as it was planned.
  static constexpr uint64_t kWholeLease = ~uint64_t{0};

  // `slot_count` ≥ 2, including the reserved slot. With `ordered` batches are taken in order, else
  // as they finish.
  LeaseTable(uint64_t stream_id, uint32_t slot_count, uint32_t lease_samples, bool ordered = true)
      : stream_id_(stream_id),
        slot_count_(slot_count),
        lease_samples_(lease_samples),
        ordered_(ordered) {
    for (uint32_t slot = 0; slot < slot_count; ++slot) free_slots_.insert(slot);
  }

  bool has_free_slot() const {
    // With one slot left, none is held in reserve: the stream would stand still.
    const bool keeps_reserve = lost_slots_.size() + 1 < slot_count_;
    return free_slots_.size() > (keeps_reserve ? 1 : 0);
  }
  // Puts the next batch into a free slot and plans its leases. Needs has_free_slot(). With
  // `bringer` the whole batch is that worker's, which has had none, and the result is its leases;
  // else the result is empty.
  std::vector<internal::v1::Lease> BeginBatch(const v1::BatchHeader& header,
                                              std::optional<WorkerId> bringer = std::nullopt);

  // Planned leases, without suspects; and suspects.
  bool has_planned() const { return !planned_.empty(); }
  bool has_suspect() const { return !suspects_.empty(); }
  // Gives the oldest planned lease, or the oldest suspect, to `worker`; absent if there is none. Of
  // a longer lease its first `most_samples`, at least 1, are one from then on, and the rest is
  // another.
  std::optional<internal::v1::Lease> Assign(WorkerId worker, bool suspect = false,
                                            uint64_t most_samples = kWholeLease);

  // A lease that the worker holds; absent if it does not hold it.
  std::optional<internal::v1::Lease> HeldLease(uint64_t lease_id, WorkerId worker) const;

  // A worker's report on a lease. Complete returns the lease's number of samples. Absent or false,
  // and ignored, if the worker does not hold the lease.
  std::optional<uint32_t> Complete(uint64_t lease_id, WorkerId worker,
                                   std::vector<internal::v1::Substitution> substitutions);
  // With `again` a failed lease is planned again.
  bool Fail(uint64_t lease_id, WorkerId worker, const internal::v1::LeaseFailed& failure,
            bool again = false);

  // The deaths of workers at one lease.
  struct Death {
    internal::v1::Lease lease;
    uint32_t deaths = 0;
    uint32_t convicting = 0;  // those that only the lease can have caused
  };
  // The worker died, or was killed, while it worked on that lease; call WorkerGone or WriteOff
  // next. `alone`: the worker was never given another lease. `by_itself`: the lease apparently
  // caused the death. Absent if the worker does not hold the lease.
  std::optional<Death> NoteDeath(uint64_t lease_id, WorkerId worker, bool alone = false,
                                 bool by_itself = false);

  // The worker was reaped: plans its leases again and returns their number.
  uint32_t WorkerGone(WorkerId worker);
  // The worker was killed and cannot be reaped. It may still write, so the slots in which it holds
  // leases are lost until WorkerGone. Their batches start again in other slots: the head at once,
  // in the reserved slot if need be, the others as slots become free. Workers with other leases of
  // these batches also work in the lost slots, so a slot comes back only when each of them has
  // reported or is gone. False if the head has no slot to move to and none can come back.
  bool WriteOff(WorkerId worker);

  // Does all leases again because their input has changed. Leases in work are planned again when
  // their worker reports or is gone. Forgets deaths. Suspects stay suspects, except those already
  // tried alone: the change removed their culprit.
  void RedoAll();

  // A batch whose leases are all ready, or with a failed lease.
  struct FinishedBatch {
    v1::BatchHeader header;
    uint32_t slot = 0;
    std::vector<internal::v1::Substitution> substitutions;  // by position
    std::optional<internal::v1::LeaseFailed> failure;       // of the first failed lease
    uint64_t older = 0;                                     // number of older pending batches
  };
  // Takes the oldest batch, if it is finished. Without order: the oldest finished batch of the
  // head's epoch within kMaxAhead; a failed batch only as the head. Its slot stays out until
  // FreeSlot, even if the batch failed.
  std::optional<FinishedBatch> TakeNext();
  // Lets the slot be filled again.
  void FreeSlot(uint32_t slot);

  // Batches begun and not taken.
  size_t pending() const { return batches_.size(); }
  // Sequence number of the oldest pending batch.
  std::optional<uint64_t> head_sequence() const {
    if (batches_.empty()) return std::nullopt;
    return batches_.begin()->second.header.sequence();
  }
  uint32_t free_slots() const { return static_cast<uint32_t>(free_slots_.size()); }
  uint32_t out_slots() const { return out_slots_; }
  // Number of pending batches that are finished.
  uint32_t finished() const;
  // Visits the pending batches, and their assigned leases.
  void ForEachPending(const std::function<void(const v1::BatchHeader&)>& batch,
                      const std::function<void(const internal::v1::Lease&, WorkerId)>& lease) const;

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
    size_t undecided = 0;  // leases neither ready nor failed
    bool failed = false;   // a lease has failed

    bool IsFinished() const { return undecided == 0; }
  };
  using BatchMap = std::map<uint64_t, Batch>;  // key: order of BeginBatch

  // A lease's batch and its index there.
  struct Place {
    uint64_t batch = 0;  // key of batches_
    size_t lease = 0;
    auto operator<=>(const Place&) const = default;
  };

  // A slot whose batch was moved away, and the leases whose workers may still write to it.
  struct LostSlot {
    uint32_t slot = 0;
    std::vector<std::pair<WorkerId, uint64_t>> writers;
  };

  LeaseEntry& At(const Place& place) { return batches_.at(place.batch).leases[place.lease]; }
  const LeaseEntry& At(const Place& place) const {
    return batches_.at(place.batch).leases[place.lease];
  }
  LeaseEntry* FindHeld(uint64_t lease_id, WorkerId worker);
  // A held lease becomes ready or failed. False if it is outdated and planned again instead.
  bool Decide(LeaseEntry& entry, LeaseState state);
  void Plan(const Place& place);
  // `worker` no longer writes for that lease; without an id, for any lease.
  void EndWriting(WorkerId worker, std::optional<uint64_t> lease_id);
  // Batches with leases of workers that were written off.
  std::set<uint64_t> StuckBatches();
  // Moves those batches as far as there are slots.
  void MoveStuckBatches();
  void MoveBatch(uint64_t number, Batch& batch);
  // The batch for TakeNext; end if there is none.
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
  // The lowest is filled first, so that one that was never needed takes no memory.
  std::set<uint32_t> free_slots_;
  std::vector<LostSlot> lost_slots_;
  uint32_t out_slots_ = 0;
  uint64_t next_lease_id_ = 1;
};

}  // namespace bulkhead
