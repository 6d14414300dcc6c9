#ifndef BULKHEAD_SERVER_SERVICE_STREAM_SESSION_H_
#define BULKHEAD_SERVER_SERVICE_STREAM_SESSION_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/service/session_context.h"

namespace bulkhead {

// One call of Loader.Stream: reads Open and Releases, prepares the pipeline on a thread of its own,
// writes what the supervisor delivers, within the client's credits: a batch's bytes, or, to a
// client that came through the arena door, which slot it lies in: through that door if the client
// wishes it.
//
//   gRPC threads: OnReadDone, OnWriteDone, OnCancel ─┐
//   preparing thread: Progress ──────────────────────┼─▶ outgoing queue ─▶ one write at a time
//   supervisor's thread: Opened, OnBatch, OnEvent … ─┤
//   service's loop: heartbeats, released slots ──────┘
//
// Life: made by Start for a new call; keeps itself alive until gRPC is done with it (OnDone) and
// the supervisor has let go.
class StreamSession final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            public StreamObserver,
                            public std::enable_shared_from_this<StreamSession> {
 public:
  // The reactor to return to gRPC. The caller has added the session to context.sessions.
  static StreamSession* Start(const SessionContext& context, grpc::CallbackServerContext* rpc,
                              std::string peer);

  // grpc::ServerBidiReactor
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // StreamObserver
  void OnAdded() override;
  void OnBatch(ReadyBatch batch) override;
  void OnEvent(const v1::SampleEvent& event) override;
  void OnActivity(const std::string& activity) override;
  void OnEnd() override;
  void OnFailed(const absl::Status& status) override;
  void OnIdle(bool idle) override;

 private:
  using Outgoing = std::variant<grpc::ByteBuffer, v1::SampleEvent, ReadyBatch>;

  StreamSession(const SessionContext& context, grpc::CallbackServerContext* rpc, std::string peer);

  void HandleOpen(const v1::Open& open);
  void HandleRelease(const v1::Release& release);
  // On the preparing thread.
  void Prepare(v1::Open open);
  // `legacy`: what the client's earlier connection, which ends, leaves to this one.
  absl::Status ClaimStream(const v1::Open& open, std::shared_ptr<Legacy>& legacy);
  // Waits a little for memory of streams that are about to end: the client's own last one, say.
  // What does not come by then it does without, if fewer slots fit: `prepared` says how many.
  absl::StatusOr<Supervisor::Admission> Admit(PreparedPipeline& prepared, Legacy* legacy);
  absl::Status OpenStream(const v1::Open& open, PreparedPipeline prepared, Legacy* legacy);
  // Waits until a worker has loaded the user's code, and makes it a part of the fingerprint.
  absl::Status AwaitCode(PreparedPipeline& prepared);
  // Passes the arena through the door if client and service can; `opened` says what came of it.
  absl::Status ChooseTransport(const v1::Open& open, const Arena& arena, v1::Opened& opened);
  // A heartbeat, when nothing else was sent since the last call; again in a second. Ends the call
  // when the storage hangs that the preparing thread waits for.
  void Beat() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnSlotsReleased(uint32_t slots) ABSL_LOCKS_EXCLUDED(mutex_);
  void Enqueue(Outgoing outgoing) ABSL_LOCKS_EXCLUDED(mutex_);
  void Enqueue(const v1::StreamResponse& response);
  // Ends the stream and the call at once, the latter with `status`: what is queued is dropped. The
  // arena goes back although the client may not read any more, or be gone without a word. Returns
  // what is left to a successor.
  std::shared_ptr<Legacy> Evict(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Cancels the call, which drops what gRPC was to write for it.
  void Cut() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the call with `status` behind what is queued.
  void FinishWith(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Starts the next write, or the end of the call, if none is under way and credits allow.
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasCredit(const ReadyBatch& batch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves what comes next out of the queue and into frames_; nothing when credit is missing.
  void FrameNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends what comes next through the arena door; false when it has to go, or to wait, otherwise.
  bool AnnounceNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The slot is the client's from now on. Nothing, and the stream is over, when the client is gone.
  std::optional<v1::SlotBatch> HandOut(ReadyBatch batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndClaims() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionContext context_;
  grpc::CallbackServerContext* const rpc_;  // until done_
  const std::string peer_;
  std::shared_ptr<StreamSession> self_;  // until OnDone
  std::atomic<bool> gone_{false};        // the client is
  // The preparing thread, as storage sees it.
  const std::shared_ptr<StorageWatch::Caller> caller_ = std::make_shared<StorageWatch::Caller>();
  grpc::ByteBuffer incoming_;
  bool opened_ = false;  // of the reading side

  absl::Mutex mutex_;
  v1::BatchSchema schema_ ABSL_GUARDED_BY(mutex_);
  v1::Credits credits_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer opening_ ABSL_GUARDED_BY(mutex_);  // Opened, until the stream is there
  std::deque<Outgoing> queue_ ABSL_GUARDED_BY(mutex_);
  std::deque<grpc::ByteBuffer> frames_ ABSL_GUARDED_BY(mutex_);  // of the batch under way
  grpc::ByteBuffer writing_ ABSL_GUARDED_BY(mutex_);
  bool write_active_ ABSL_GUARDED_BY(mutex_) = false;
  bool wrote_since_beat_ ABSL_GUARDED_BY(mutex_) = false;
  bool heartbeat_due_ ABSL_GUARDED_BY(mutex_) = false;
  std::string activity_ ABSL_GUARDED_BY(mutex_);  // for the next heartbeat
  bool idle_ ABSL_GUARDED_BY(mutex_) = false;
  bool finish_called_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;  // gRPC is done with the call
  std::optional<absl::Status> final_status_ ABSL_GUARDED_BY(mutex_);
  // Sent and not released: sequence number and bytes of each batch, in the order of sending.
  std::deque<std::pair<uint64_t, uint64_t>> unreleased_ ABSL_GUARDED_BY(mutex_);
  uint64_t unreleased_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t stream_id_ ABSL_GUARDED_BY(mutex_) = 0;
  internal::v1::ResolvedSource resolved_ ABSL_GUARDED_BY(mutex_);
  // What the stream was promised, once it was admitted.
  std::shared_ptr<ArenaMemory> memory_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const void> workers_ ABSL_GUARDED_BY(mutex_);
  // With shared memory: who holds the slots, and how it calls the arena.
  std::shared_ptr<ArenaClient> arena_client_ ABSL_GUARDED_BY(mutex_);
  uint64_t arena_id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool at_door_ ABSL_GUARDED_BY(mutex_) = false;  // slots and events go through the door
  // The claim on (name, rank) in the directory.
  std::string name_ ABSL_GUARDED_BY(mutex_);
  uint32_t rank_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t claim_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_STREAM_SESSION_H_
