#ifndef BULKHEAD_SERVER_SERVICE_TRACE_TRACE_SESSION_H_
#define BULKHEAD_SERVER_SERVICE_TRACE_TRACE_SESSION_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/service/session_context.h"

namespace bulkhead {

// One call of Loader.Trace: begins a trace and sends its parts. A client that does not read them
// holds up nobody; the trace loses events meanwhile. Works on the service's loop. Keeps itself
// alive until gRPC is done with it.
class TraceSession final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                           public std::enable_shared_from_this<TraceSession> {
 public:
  static constexpr absl::Duration kDefaultDuration = absl::Seconds(5);
  static constexpr absl::Duration kMostDuration = absl::Seconds(60);

  // The reactor to return to gRPC. Its id in context.sessions is `id`.
  static TraceSession* Start(const SessionContext& context, const grpc::ByteBuffer& request,
                             uint64_t id);

  void OnWriteDone(bool ok) override;
  void OnCancel() override { FinishWith(absl::CancelledError("the client is gone")); }
  void OnDone() override;

 private:
  TraceSession(const SessionContext& context, uint64_t id) : context_(context), id_(id) {}

  absl::Status Begin(const grpc::ByteBuffer& bytes);
  // Sends the next part, if there is one. Repeats itself.
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);
  void FinishWith(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionContext context_;
  const uint64_t id_;
  std::shared_ptr<TraceSession> self_;  // until OnDone
  uint64_t trace_ = 0;                  // its number in the log; 0: not begun
  int64_t deadline_ns_ = 0;             // by then even a busy supervisor has ended it

  absl::Mutex mutex_;
  grpc::ByteBuffer writing_ ABSL_GUARDED_BY(mutex_);
  bool write_active_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_TRACE_TRACE_SESSION_H_
