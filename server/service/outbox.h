#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/doors/arena_client.h"
#include "server/supervisor/leases/assignments.h"
#include "server/supervisor/leases/stream.h"
#include "server/supervisor/leases/stream_meter.h"

namespace bulkhead {

// What one call of Loader.Stream sends to its client, in order and within the client's credits. A
// batch is sent as bytes or, to a client of the arena door, as the number of its slot, through the
// door if the client wishes. One write is under way at a time; the end of the call comes last.
//
//   Put, Release, Beat, … ─▶ queue ─▶ frames of one message ─▶ Wire::write ─▶ OnWritten ─▶ …
//
// Thread-safe.
class Outbox {
 public:
  using Outgoing = std::variant<grpc::ByteBuffer, v1::SampleEvent, ReadyBatch>;
  // The gRPC call. Called with the outbox locked, so it must not call the outbox.
  struct Wire {
    std::function<void(const grpc::ByteBuffer*)> write;  // OnWritten follows
    std::function<void(const absl::Status&)> finish;     // nothing follows
  };
  // How batches travel.
  struct Transport {
    v1::BatchSchema schema;
    std::shared_ptr<ArenaClient> client;  // null: batches are sent as bytes
    uint64_t arena_id = 0;
    bool at_door = false;  // slots and events go through the door
    uint32_t slots = 0;    // with `client`: that it can hold at a time
  };

  explicit Outbox(Wire wire) : wire_(std::move(wire)) {}

  // The most batches of any client's credits: its releases are looked for among as many.
  static constexpr uint32_t kMostCreditBatches = 4096;
  // Call it before the first batch. 0 means the default.
  void SetCredits(v1::Credits credits) ABSL_LOCKS_EXCLUDED(mutex_);
  // Stores the answer to Open until Open is called.
  void SetOpened(const v1::StreamResponse& opened, Transport transport) ABSL_LOCKS_EXCLUDED(mutex_);
  void Open() ABSL_LOCKS_EXCLUDED(mutex_);

  void Put(Outgoing outgoing) ABSL_LOCKS_EXCLUDED(mutex_);
  void Put(const v1::StreamResponse& response) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sent with heartbeats until the next batch.
  void SetActivity(const std::string& activity) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetIdle(bool idle) ABSL_LOCKS_EXCLUDED(mutex_);
  // A line for the client's log. Does not wait behind batches without credit. A client that does
  // not read gets the first kMostNotes, and how many were left out.
  static constexpr size_t kMostNotes = 64;
  void PutNote(const v1::Note& note) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends a heartbeat if nothing was sent since the last call. `silent`: how long the supervisor's
  // thread has been silent. False if the call has ended.
  bool Beat(absl::Duration silent) ABSL_LOCKS_EXCLUDED(mutex_);

  // The client has released all batches up to `through_sequence`, or `slots` batches.
  void Release(uint64_t through_sequence) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReleaseSlots(uint32_t slots) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client will ask for each batch. Call it before Open.
  std::shared_ptr<Assignments> ExpectAssignments() ABSL_LOCKS_EXCLUDED(mutex_);
  // The client asks for batches. INVALID_ARGUMENT (PROTOCOL_VIOLATION) if it may not, or for too
  // many.
  absl::Status Assign(const v1::Assign& assign) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnWritten(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the call with `status` after what is queued, unless its end is already decided.
  void Finish(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, but sends nothing more, because the client is gone.
  void Abandon(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the call with `status` at once, even if another end was decided.
  void Evict(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client no longer reads.
  bool gone() const { return gone_; }
  // Since when the client has had all that it can get, or left something waiting, and released
  // nothing (MonotonicNanos); 0: it waits itself.
  std::shared_ptr<const std::atomic<int64_t>> unread_since() const { return unread_since_; }
  // Who has waited for whom since Open, and what went out.
  std::shared_ptr<StreamMeter> meter() const { return meter_; }

 private:
  // Starts the next write, or the end of the call, if none is under way and credits allow. `beat`:
  // sends a heartbeat if there is nothing else.
  void WriteNext(bool beat = false) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasCredit(const ReadyBatch& batch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the next note to frames_.
  void FrameNote() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the next item from the queue to frames_, unless credit is missing.
  void FrameNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends the next item through the arena door; false if it must go another way, or wait.
  bool AnnounceNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the slot to the client. Absent, and the stream ends, if the client is gone.
  std::optional<v1::SlotBatch> HandOut(ReadyBatch batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void NoteSent(const v1::BatchHeader& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes who waits now. `released`: the client has released a batch just now.
  void NoteWaits(bool released) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Wire wire_;
  std::atomic<bool> gone_{false};
  const std::shared_ptr<std::atomic<int64_t>> unread_since_ =
      std::make_shared<std::atomic<int64_t>>(0);
  const std::shared_ptr<StreamMeter> meter_ = std::make_shared<StreamMeter>();
  absl::Mutex mutex_;
  v1::Credits credits_ ABSL_GUARDED_BY(mutex_);
  Transport transport_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Assignments> assignments_ ABSL_GUARDED_BY(mutex_);  // null: it gets all batches
  grpc::ByteBuffer opened_ ABSL_GUARDED_BY(mutex_);                   // until Open
  std::deque<Outgoing> queue_ ABSL_GUARDED_BY(mutex_);
  bool open_ ABSL_GUARDED_BY(mutex_) = false;  // the answer to Open is in the queue, or sent
  std::deque<v1::Note> notes_ ABSL_GUARDED_BY(mutex_);
  uint64_t notes_left_out_ ABSL_GUARDED_BY(mutex_) = 0;          // since the last one in notes_
  std::deque<grpc::ByteBuffer> frames_ ABSL_GUARDED_BY(mutex_);  // of the batch under way
  grpc::ByteBuffer writing_ ABSL_GUARDED_BY(mutex_);
  bool write_active_ ABSL_GUARDED_BY(mutex_) = false;
  bool wrote_since_beat_ ABSL_GUARDED_BY(mutex_) = false;
  v1::Heartbeat heartbeat_ ABSL_GUARDED_BY(mutex_);  // the next one
  bool finish_called_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> final_status_ ABSL_GUARDED_BY(mutex_);
  // Sequence number and bytes of each batch sent but not released, in sending order.
  std::deque<std::pair<uint64_t, uint64_t>> unreleased_ ABSL_GUARDED_BY(mutex_);
  uint64_t unreleased_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace bulkhead
