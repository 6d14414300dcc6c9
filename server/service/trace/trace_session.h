#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/service/calls/request_call.h"
#include "server/service/session_context.h"

namespace bulkhead {

// One call of Loader.Trace: begins a trace and sends its parts. A client that does not read them
// holds up nobody; the trace loses events meanwhile. Works on the service's loop.
class TraceSession final : public RequestCall {
 public:
  static constexpr absl::Duration kDefaultDuration = absl::Seconds(5);
  static constexpr absl::Duration kMostDuration = absl::Seconds(60);

  // Its id in context.sessions is `id`.
  TraceSession(const SessionContext& context, uint64_t id) : context_(context), id_(id) {}

  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  void OnRequest(grpc::ByteBuffer bytes) override;
  void FinishWith(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_);
  std::weak_ptr<TraceSession> WeakSelf() {
    return std::static_pointer_cast<TraceSession>(shared_from_this());
  }

  absl::Status Begin(const grpc::ByteBuffer& bytes);
  // Sends the next part, if there is one. Repeats itself.
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionContext context_;
  const uint64_t id_;
  uint64_t trace_ = 0;       // its number in the log; 0: not begun
  int64_t deadline_ns_ = 0;  // by then even a busy supervisor has ended it

  absl::Mutex mutex_;
  grpc::ByteBuffer writing_ ABSL_GUARDED_BY(mutex_);
  bool write_active_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bulkhead
