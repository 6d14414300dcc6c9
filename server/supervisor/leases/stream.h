#pragma once

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
#include "server/arena/slot_hold.h"
#include "server/base/quarantine_set.h"
#include "server/os/event_loop.h"
#include "server/supervisor/leases/assignments.h"
#include "server/supervisor/leases/brought_batches.h"
#include "server/supervisor/leases/lease_table.h"
#include "server/supervisor/leases/stream_inputs.h"
#include "server/supervisor/leases/stream_meter.h"
#include "server/supervisor/leases/stream_notes.h"
#include "server/supervisor/memory/arena_memory.h"
#include "server/supervisor/trace/stream_trace.h"
#include "server/supervisor/trace/tracer.h"

namespace bulkhead {

struct ReadyBatch {
  v1::BatchHeader header;
  std::shared_ptr<const SlotHold> hold;
  std::vector<internal::v1::Substitution> substitutions;  // by position
};

// The substituted samples of a stream: of its epoch, and of all of them so far.
struct SubstitutionCounts {
  uint64_t epoch = 0;
  uint64_t in_epoch = 0;
  uint64_t total = 0;
};

// Receives a stream's events, on the supervisor's thread and in the order of delivery. Must not
// block.
class StreamObserver {
 public:
  virtual ~StreamObserver() = default;
  // The stream was added, and a status shows it. Called first, unless the stream fails at once.
  virtual void OnAdded() {}
  virtual void OnBatch(ReadyBatch batch) = 0;
  virtual void OnEvent(const v1::SampleEvent& event) = 0;
  // No batch was delivered for a while, though one is in work. `activity`: what the workers are
  // doing, human-readable. Repeated every second until OnBatch.
  virtual void OnActivity(const std::string& activity) { (void)activity; }
  // `idle`: the stream's workers serve others until its client takes a batch.
  virtual void OnIdle(bool idle) {}
  // A line for the client's log. May be dropped, while the client does not read.
  virtual void OnNote(const v1::Note& note) { (void)note; }
  // The last batch was delivered. No call follows.
  virtual void OnEnd() = 0;
  // The stream failed after the batches delivered so far. No call follows.
  virtual void OnFailed(const absl::Status& status) = 0;
};

// The end of a stream that was not read for `timeout`. `why`: who needed what.
absl::Status StreamIdle(absl::Duration timeout, absl::string_view why);

// What a stream delivers, and to whom.
struct StreamConfig {
  // What a status says of it that does not change: its name, rank, world size, transport, peer,
  // pipeline and spec.
  v1::StreamStatus about;
  std::shared_ptr<StreamMeter> meter;
  std::shared_ptr<Tracer> tracer;  // null: it is never traced
  // The stream as workers see it. The supervisor fills in stream_id and later quarantined records.
  internal::v1::StreamBinding binding;
  // Quarantined from the beginning.
  QuarantineSet quarantined;
  std::shared_ptr<Arena> arena;
  // The arena's part of the budget, and the stream's claim as one of its writers; null if it has
  // none.
  std::shared_ptr<ArenaMemory> memory;
  std::shared_ptr<const void> writer;
  // Batch `sequence` of the stream, from 0; absent after the last.
  std::function<std::optional<v1::BatchHeader>(uint64_t sequence)> batch_at;
  // Records that a sample may take besides its own.
  uint32_t partners = 0;
  // Substitutions allowed per epoch, and those that the cursor already counts in its epoch.
  uint64_t max_substitutions_per_epoch = 0;
  uint64_t substitutions_so_far = 0;
  uint64_t first_epoch = 0;
  // false: batches come as they finish, each once, none before the last of an earlier epoch, and
  // none more than 63 before its turn.
  bool ordered = true;
  // With it the stream makes only these batches, whatever their order, and has no end; null: it
  // makes all. Needs `ordered`, and no `completed` batches.
  std::shared_ptr<Assignments> assignments;
  // Streams of one pool with equal keys may share batches: what workers see of them is equal.
  // Empty: it makes all batches itself.
  std::string share_key;
  // Why it has no key though its client asked to share, human-readable; empty: that is not so.
  std::string unshared;
  // It makes batches that several streams share, and is no client's.
  bool for_others = false;
  // The user files that made the batches so far, as the client knows them.
  std::vector<v1::CodeFile> code;
  // Batches of the first epoch that were delivered earlier and are skipped. Each is above 0 and
  // below the number of batches left in that epoch.
  std::vector<uint32_t> completed;
  std::shared_ptr<StreamObserver> observer;
  // Of a source of objects: brings their bytes; else without functions.
  InputFetcher fetcher;
  // Records a quarantined record beyond the stream. Called on the supervisor's thread before the
  // observer is; must not block; may be empty.
  std::function<void(const v1::QuarantinedRecord&)> on_quarantined;

  // Shared memory that evicting the stream frees, without the batch that a training step holds. A
  // client gives back what it has not read yet, and keeps what it holds. A stream that makes
  // batches for others is not evicted: its group ends it.
  uint64_t evictable_bytes() const;
};

// One open stream inside the supervisor. Begins batches as slots become free, takes the workers'
// reports on leases, and delivers finished batches, in order unless configured otherwise. Lives on
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
  // Whether workers have something to do, and whether there are suspects (LeaseTable).
  struct Work {
    bool any = false;
    bool suspect = false;
  };
  Work work() const;
  // The batches whose bytes are brought to this host; null: the source has no objects.
  StreamInputs* inputs() const { return inputs_.get(); }
  std::optional<internal::v1::Lease> Assign(LeaseTable::WorkerId worker, bool suspect = false,
                                            uint64_t most_samples = LeaseTable::kWholeLease);
  // Epoch and position of an upcoming sample, for warming up; absent if there is none.
  std::optional<std::pair<uint64_t, uint64_t>> NextPosition() const;
  // Checks the substitutions in LeaseDone (lease_word.h). INTERNAL, human-readable, if they are
  // impossible.
  absl::Status CheckWord(const internal::v1::LeaseDone& done, LeaseTable::WorkerId worker) const;
  // Whether the worker holds the lease and the sample belongs to it.
  bool CanBeAt(uint64_t lease_id, LeaseTable::WorkerId worker, uint64_t epoch,
               uint64_t position) const;
  // A worker's report on a lease, as in LeaseTable.
  std::optional<uint32_t> Complete(const internal::v1::LeaseDone& done,
                                   LeaseTable::WorkerId worker);
  bool FailLease(const internal::v1::LeaseFailed& failure, LeaseTable::WorkerId worker);
  uint32_t WorkerGone(LeaseTable::WorkerId worker);
  // A worker's death at a lease, as in LeaseTable.
  std::optional<LeaseTable::Death> NoteDeath(uint64_t lease_id, LeaseTable::WorkerId worker,
                                             bool alone = false, bool by_itself = false) {
    return leases_.NoteDeath(lease_id, worker, alone, by_itself);
  }
  // The worker was killed but cannot be reaped: its slots are lost for now. Fails the stream if
  // none is left for its oldest batch; and one that makes batches for others if it loses any.
  void WriteOff(LeaseTable::WorkerId worker);
  // The record (its canonical name) ended `deaths` fresh workers that did nothing else; `reason`
  // tells a person how and where the last one ended. Under `substitute` the record joins the
  // quarantine set and all undelivered batches are done again: returns true, and the workers must
  // be sent SetQuarantine before another lease of this stream. False if nothing is to be sent,
  // because the record was in the set already or the stream has ended. Ends the stream with
  // POISON_SAMPLE (FAILED_PRECONDITION) under `fail`, with QUARANTINE_FULL if the set is full.
  bool Quarantine(const std::string& record, const std::string& reason, uint32_t deaths);
  // The set for leases that are assigned now, as sent to workers.
  internal::v1::SetQuarantine quarantine() const;

  // Workers have loaded this user file. The next batch tells the client, unless it knows. Ends the
  // stream with CODE_CHANGED if the client knows a different content.
  void NoteCode(const std::string& name, const std::string& digest);

  // Lines for the client's log.
  StreamNotes& notes() { return notes_; }
  // Batches that others have made.
  BroughtBatches& brought() { return brought_; }
  const BroughtBatches& brought() const { return brought_; }

  // How long a batch has been in work since the last delivery; zero while none is, as when the
  // client holds all slots.
  absl::Duration WithoutBatch(int64_t now_ns) const;

  // Ends the stream with an error. With `evict`, also a stream that has delivered its last batch
  // but whose client does not take the waiting ones.
  void Fail(const absl::Status& status, bool evict = false);
  // Called when the client is gone.
  void Close() { finished_ = true; }

  // How long the client has left a waiting batch untaken while the stream had nothing to do. Zero
  // if the client takes batches, or waits itself.
  absl::Duration idle_for(int64_t now_ns) const;

  v1::StreamStatus Status() const;
  // Adds what the stream has delivered.
  void AppendTotals(v1::GetStatusResponse& response) const;

 private:
  // The next batch to begin; absent if there is none, with assignments or objects for now.
  std::optional<v1::BatchHeader> NextBatch();
  void DeliverFinished();
  // Of the batch with that sequence number.
  std::shared_ptr<const SlotHold> HoldSlot(uint32_t slot, uint64_t sequence);

  const uint64_t id_;
  const StreamConfig config_;
  const std::shared_ptr<EventLoop> loop_;
  const std::function<void()> wake_;
  const absl::Time opened_ = absl::Now();
  LeaseTable leases_;
  BroughtBatches brought_;
  StreamNotes notes_{[this](const v1::Note& note) {
    if (!finished_) config_.observer->OnNote(note);
  }};
  QuarantineSet quarantined_;
  std::string quarantine_digest_;
  std::map<std::string, std::string> code_;  // digests by name
  std::vector<v1::CodeFile> untold_code_;    // for the header of the next batch
  uint64_t next_sequence_ = 0;               // to be planned
  uint64_t begun_sequence_ = 0;              // the last one that was begun
  std::unique_ptr<StreamInputs> inputs_;
  int64_t quiet_since_ns_ = 0;  // since a delivery or a returned slot
  // Sequences delivered before their turn, by this stream or before it.
  std::set<uint64_t> ahead_;
  bool exhausted_ = false;  // there are no more batches to begin
  bool listens_ = false;    // to the assignments, if there are any
  bool finished_ = false;
  int64_t waits_since_ns_ =
      0;  // since the last delivery, or since a batch was begun when none was in work
  uint64_t delivered_ = 0;
  uint64_t released_ = 0;
  uint64_t samples_delivered_ = 0;
  SubstitutionCounts counts_;
  const StreamTrace trace_;
  const TraceHook trace_hook_;
};

}  // namespace bulkhead
