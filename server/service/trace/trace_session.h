#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

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

  // It has a place in context.sessions.
  explicit TraceSession(const SessionContext& context) : context_(context) {}

  void OnWriteDone(bool ok) override;

 private:
  void OnRequest(grpc::ByteBuffer bytes) override;
  void FinishWith(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnEnd() override;

  absl::Status Begin(const grpc::ByteBuffer& bytes);
  // Sends the next part, if there is one. Repeats itself.
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionContext context_;
  uint64_t trace_ = 0;       // its number in the log; 0: not begun
  int64_t deadline_ns_ = 0;  // by then even a busy supervisor has ended it

  absl::Mutex mutex_;
  grpc::ByteBuffer writing_ ABSL_GUARDED_BY(mutex_);
  bool write_active_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bulkhead
