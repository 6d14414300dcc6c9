#ifndef BULKHEAD_SERVER_SUPERVISOR_STREAM_H_
#define BULKHEAD_SERVER_SUPERVISOR_STREAM_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/arena/arena.h"
#include "server/base/quarantine_set.h"
#include "server/os/event_loop.h"
#include "server/supervisor/arena_memory.h"
#include "server/supervisor/lease_table.h"

namespace bulkhead {

// A delivered batch's claim on its slot: the slot is reused when the last copy of the shared_ptr is
// gone. May be dropped on any thread, also after the stream or the supervisor ended.
class SlotHold {
 public:
  // `memory`: what the slot is a part of; may be null.
  SlotHold(std::shared_ptr<Arena> arena, uint32_t slot, std::function<void()> release,
           std::shared_ptr<ArenaMemory> memory = nullptr)
      : arena_(std::move(arena)),
        slot_(slot),
        release_(std::move(release)),
        memory_(std::move(memory)) {
    if (memory_ != nullptr) memory_->Hold(slot_);
  }
  ~SlotHold() {
    if (memory_ != nullptr) memory_->Release(slot_, left_);
    release_();
  }
  SlotHold(const SlotHold&) = delete;
  SlotHold& operator=(const SlotHold&) = delete;

  const std::byte* data() const { return arena_->slot(slot_); }
  uint32_t slot() const { return slot_; }
  // Whoever reads the slot has it mapped, and went without a word about it.
  void NoteLeft() const { left_ = true; }

 private:
  const std::shared_ptr<Arena> arena_;
  const uint32_t slot_;
  const std::function<void()> release_;
  const std::shared_ptr<ArenaMemory> memory_;
  mutable std::atomic<bool> left_{false};
};

struct ReadyBatch {
  v1::BatchHeader header;
  std::shared_ptr<const SlotHold> hold;
};

// Who receives a stream. Called on the supervisor's thread, in the order of delivery; must not
// block.
class StreamObserver {
 public:
  virtual ~StreamObserver() = default;
  // The stream is there, and a status shows it. Before all else, unless it fails at once.
  virtual void OnAdded() {}
  virtual void OnBatch(ReadyBatch batch) = 0;
  virtual void OnEvent(const v1::SampleEvent& event) = 0;
  // No batch was delivered for a while, though one is being made: what the workers are at, for
  // people. Again every second, until OnBatch.
  virtual void OnActivity(const std::string& activity) { (void)activity; }
  // The stream's workers serve others until its client takes a batch; or do so no longer.
  virtual void OnIdle(bool idle) {}
  // The last batch was delivered. Nothing follows.
  virtual void OnEnd() = 0;
  // The stream failed behind the batches delivered so far. Nothing follows.
  virtual void OnFailed(const absl::Status& status) = 0;
};

// What a stream delivers, to whom.
struct StreamConfig {
  // For the status page.
  std::string name;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  std::string peer;
  v1::Transport transport = v1::TRANSPORT_GRPC;
  // How workers see it; the supervisor fills in stream_id, and what is quarantined later on.
  internal::v1::StreamBinding binding;
  // In force from the beginning.
  QuarantineSet quarantined;
  std::shared_ptr<Arena> arena;
  // The arena's part of the budget, and what counts the stream among those who write to it; null
  // where there is none.
  std::shared_ptr<ArenaMemory> memory;
  std::shared_ptr<const void> writer;
  // Batch `sequence` of the stream, from 0; absent behind the last.
  std::function<std::optional<v1::BatchHeader>(uint64_t sequence)> batch_at;
  // Records that a sample may take beside its own: a mosaic's.
  uint32_t partners = 0;
  // Substitutions that an epoch may hold, and those that the cursor brings along in its epoch.
  uint64_t max_substitutions_per_epoch = 0;
  uint64_t substitutions_so_far = 0;
  uint64_t first_epoch = 0;
  // false: batches come as they are finished, each once, none before an earlier epoch's last and
  // none more than 63 before its turn.
  bool ordered = true;
  // The user's files that the client knows to have made its batches.
  std::vector<v1::CodeFile> code;
  // Batches of the first epoch that were delivered before: never begun, never delivered. Each is
  // above 0 and below the number of batches that are left of that epoch.
  std::vector<uint32_t> completed;
  std::shared_ptr<StreamObserver> observer;
  // A record was quarantined in this stream: for whoever remembers it beyond the stream. Called on
  // the supervisor's thread before the observer hears of it; must not block; may be empty.
  std::function<void(const v1::QuarantinedRecord&)> on_quarantined;
};

// One open stream inside the supervisor: begins batches as slots become free, takes the workers'
// word on leases, delivers finished batches, in order unless the config says otherwise. Lives on
// the supervisor's thread.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  // `wake` is called when new leases may have become available.
  Stream(uint64_t id, StreamConfig config, std::shared_ptr<EventLoop> loop,
         std::function<void()> wake);

  uint64_t id() const { return id_; }
  const StreamConfig& config() const { return config_; }
  bool finished() const { return finished_; }

  // Fills free slots with the next batches.
  void BeginBatches();
  // Leases to be given out; suspects as in LeaseTable.
  bool has_suspect() const { return !finished_ && leases_.has_suspect(); }
  bool has_work() const { return has_suspect() || (!finished_ && leases_.has_planned()); }
  std::optional<internal::v1::Lease> Assign(LeaseTable::WorkerId worker, bool suspect = false);
  // Epoch and position of a sample that comes soon, for warming up; absent when none comes.
  std::optional<std::pair<uint64_t, uint64_t>> NextPosition() const;
  // What LeaseDone says of substitutions cannot be true (lease_word.h): INTERNAL, for people.
  absl::Status CheckWord(const internal::v1::LeaseDone& done, LeaseTable::WorkerId worker) const;
  // Whether a worker can be at that sample: it holds the lease, and the sample belongs to it.
  bool CanBeAt(uint64_t lease_id, LeaseTable::WorkerId worker, uint64_t epoch,
               uint64_t position) const;
  // The worker's word on a lease, as in LeaseTable.
  std::optional<uint32_t> Complete(const internal::v1::LeaseDone& done,
                                   LeaseTable::WorkerId worker);
  bool FailLease(const internal::v1::LeaseFailed& failure, LeaseTable::WorkerId worker);
  uint32_t WorkerGone(LeaseTable::WorkerId worker);
  // A worker's death at a lease, as in LeaseTable.
  struct Death {
    uint32_t deaths = 0;      // at this lease, so far
    uint32_t convicting = 0;  // of those, with no other lease in the worker's life
    std::string work;         // for people: "epoch 0, positions 16 to 31 of stream train"
    internal::v1::Lease lease;
  };
  std::optional<Death> NoteDeath(uint64_t lease_id, LeaseTable::WorkerId worker, bool alone = false,
                                 bool by_itself = false);
  // The worker was killed but cannot be reaped: its slots are lost for now; the stream fails when
  // none is left for its oldest batch.
  void WriteOff(LeaseTable::WorkerId worker);
  // The record (its canonical name) ended `deaths` fresh workers that did nothing else; `reason`
  // says for people how the last one ended, and where. Under `substitute` it joins the quarantine
  // set and all batches that are not delivered are done anew: true, and the workers must be sent
  // SetQuarantine before they get another lease of this stream. False when nothing is to be sent:
  // it was in the set already, or the stream has ended: under `fail` with POISON_SAMPLE
  // (FAILED_PRECONDITION), with a full set with QUARANTINE_FULL.
  bool Quarantine(const std::string& record, const std::string& reason, uint32_t deaths);
  // What is in force for leases that are given out now, as workers are told.
  internal::v1::SetQuarantine quarantine() const;

  // Its workers have loaded this file of the user's: the next batch tells the client, unless it
  // knows. Ends the stream with CODE_CHANGED when what it knows is another content.
  void NoteCode(const std::string& name, const std::string& digest);

  // For how long a batch has been in the making since the last one was delivered; zero while none
  // is, as when the client holds all slots.
  absl::Duration WithoutBatch(int64_t now_ns) const;

  // Ends the stream with an error, whatever is under way; with `evict` although its last batch may
  // have been delivered: its client does not take what there is.
  void Fail(const absl::Status& status, bool evict = false);
  // Nobody listens any more.
  void Close() { finished_ = true; }

  // For how long its client has taken no batch although one is there, and nothing is left to do for
  // it but to wait; zero: it takes them, or waits itself.
  absl::Duration idle_for(int64_t now_ns) const;
  // What evicting it gives back: of shared memory, not what the client may hold.
  uint64_t evictable_bytes() const;

  v1::StreamStatus Status() const;
  // Adds what it was given.
  void AppendTotals(v1::GetStatusResponse& response) const;

 private:
  void DeliverFinished();
  // Batches of its epoch that are left when this one is delivered.
  uint64_t LeftInEpoch(const LeaseTable::FinishedBatch& batch) const;
  // Adds a batch's substitutions to the counts and reports them; an error when there are too many.
  absl::Status CountSubstitutions(LeaseTable::FinishedBatch& batch);
  std::shared_ptr<const SlotHold> HoldSlot(uint32_t slot);

  const uint64_t id_;
  const StreamConfig config_;
  const std::shared_ptr<EventLoop> loop_;
  const std::function<void()> wake_;
  const absl::Time opened_ = absl::Now();
  LeaseTable leases_;
  QuarantineSet quarantined_;
  std::string quarantine_digest_;
  std::map<std::string, std::string> code_;  // digest by name
  std::vector<v1::CodeFile> untold_code_;    // of it, for the header of the next batch
  uint64_t next_sequence_ = 0;
  int64_t quiet_since_ns_ = 0;  // a batch was delivered or a slot came back
  // Delivered before their turn, in this stream or before it.
  std::set<uint64_t> ahead_;
  bool exhausted_ = false;  // batch_at has no more
  bool finished_ = false;
  int64_t waits_since_ns_ = 0;  // when a batch was delivered last, or begun after none was
  uint64_t delivered_ = 0;
  uint64_t released_ = 0;
  uint64_t samples_delivered_ = 0;
  uint64_t epoch_ = 0;
  uint64_t epoch_substitutions_ = 0;
  uint64_t total_substitutions_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_STREAM_H_
