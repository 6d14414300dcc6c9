#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/service/calls/raw_service.h"
#include "server/service/outbox.h"
#include "server/service/session_context.h"
#include "server/service/stream_claims.h"
#include "server/service/stream_log.h"
#include "server/service/stream_opening.h"

namespace bulkhead {

// One call of Loader.Stream: reads Open and Releases, opens the stream on its own thread, and
// passes what the supervisor delivers to the outbox.
//
//   gRPC threads: OnReadDone, OnWriteDone, OnCancel ─┐
//   preparing thread: Progress ──────────────────────┼─▶ outbox ─▶ one write at a time
//   supervisor's thread: Opened, OnBatch, OnEvent … ─┤
//   service's loop: heartbeats, released slots ──────┘
//
// Life: Start makes it for a new call. It keeps itself alive until gRPC is done with it (OnDone)
// and the supervisor has released it.
class StreamSession final : public RawCall,
                            public StreamObserver,
                            public std::enable_shared_from_this<StreamSession> {
 public:
  // The reactor to return to gRPC. It has been added to context.sessions.
  static StreamSession* Start(const SessionContext& context, grpc::CallbackServerContext* rpc,
                              Caller caller);

  // grpc::ServerBidiReactor
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override { outbox_.OnWritten(ok); }
  void OnCancel() override { outbox_.Abandon(absl::CancelledError("the client is gone")); }
  void OnDone() override;

  // StreamObserver. Open is sent only after OnAdded: a client that has it may ask for the status at
  // once.
  void OnAdded() override { outbox_.Open(); }
  void OnBatch(ReadyBatch batch) override { outbox_.Put(std::move(batch)); }
  void OnEvent(const v1::SampleEvent& event) override {
    log_.Event(event);
    outbox_.Put(event);
  }
  void OnActivity(const std::string& activity) override { outbox_.SetActivity(activity); }
  void OnIdle(bool idle) override { outbox_.SetIdle(idle); }
  void OnNote(const v1::Note& note) override { outbox_.PutNote(note); }
  void OnEnd() override {
    log_.Complete();
    outbox_.Finish(absl::OkStatus());
  }
  void OnFailed(const absl::Status& status) override;

 private:
  StreamSession(const SessionContext& context, grpc::CallbackServerContext* rpc, Caller caller);

  // Starts the preparing thread with the first message.
  void HandleOpen(grpc::ByteBuffer bytes);
  // The body of the preparing thread.
  absl::Status Open(grpc::ByteBuffer bytes);
  // A message behind Open. INVALID_ARGUMENT (PROTOCOL_VIOLATION).
  absl::Status OnRequest(const v1::StreamRequest& request);
  // Ends the call if Open has not come, since a call without Open takes a place for nothing.
  void OnLate();
  // Sends a heartbeat, every second. Ends the call if the preparing thread's storage hangs.
  void Beat();
  // Ends the stream, and the call with `status`, at once; drops what is queued. Returns what is
  // left to a successor.
  std::shared_ptr<Legacy> Evict(const absl::Status& status);
  // Cancels the call, which drops gRPC's pending writes.
  void Cut() ABSL_LOCKS_EXCLUDED(mutex_);

  const SessionContext context_;
  const std::string client_;             // for limits
  const uint64_t id_;                    // in context_.sessions
  std::shared_ptr<StreamSession> self_;  // until OnDone
  // The preparing thread, as StorageWatch knows it.
  const std::shared_ptr<StorageWatch::Caller> caller_ = std::make_shared<StorageWatch::Caller>();
  grpc::ByteBuffer incoming_;
  std::atomic<bool> opened_{false};  // Open has come
  // Of OnLate. Used by the loop; outlives the session.
  const std::shared_ptr<EventLoop::TimerId> open_timer_ = std::make_shared<EventLoop::TimerId>(0);
  StreamLog log_;
  Outbox outbox_;
  StreamClaims claims_;
  StreamOpening opening_;
  absl::Mutex mutex_;
  grpc::CallbackServerContext* rpc_ ABSL_GUARDED_BY(mutex_);  // null: gRPC is done with the call
};

}  // namespace bulkhead
