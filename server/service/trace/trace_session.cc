#include "server/service/trace/trace_session.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/service/calls/call_after.h"
#include "server/service/raw_messages.h"
#include "server/service/rpc_error.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kTraceLook = absl::Milliseconds(20);
constexpr absl::Duration kTracePatience = absl::Seconds(10);

absl::StatusOr<absl::Duration> DurationOf(const v1::TraceRequest& request) {
  if (!request.has_duration()) return TraceSession::kDefaultDuration;
  const absl::Duration duration =
      absl::Seconds(request.duration().seconds()) + absl::Nanoseconds(request.duration().nanos());
  if (duration > absl::ZeroDuration() && duration <= TraceSession::kMostDuration) return duration;
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                   absl::StrCat("a trace of ", absl::FormatDuration(duration),
                                ": it takes more than nothing and at most ",
                                absl::FormatDuration(TraceSession::kMostDuration)));
}

}  // namespace

void TraceSession::OnRequest(grpc::ByteBuffer bytes) {
  if (const absl::Status begun = Begin(bytes); !begun.ok()) return FinishWith(begun);
  CallAfter(context_.loop, absl::ZeroDuration(), this, &TraceSession::Look);
}

absl::Status TraceSession::Begin(const grpc::ByteBuffer& bytes) {
  v1::TraceRequest request;
  BULKHEAD_RETURN_IF_ERROR(ParseRequest(bytes, request));
  BULKHEAD_ASSIGN_OR_RETURN(const absl::Duration duration, DurationOf(request));
  BULKHEAD_ASSIGN_OR_RETURN(trace_, context_.supervisor->BeginTrace(request.stream(), duration));
  deadline_ns_ = MonotonicNanos() + absl::ToInt64Nanoseconds(duration + kTracePatience);
  return absl::OkStatus();
}

void TraceSession::OnEnd() {
  if (trace_ != 0) context_.supervisor->trace_log().Drop(trace_);
}

void TraceSession::Look() {
  {
    absl::MutexLock lock(&mutex_);
    if (finished_) return;
    if (context_.sessions->draining()) return FinishLocked(SessionRegistry::Draining());
    if (MonotonicNanos() > deadline_ns_) {
      return FinishLocked(MakeError(absl::StatusCode::kUnavailable, reason::kServiceSilent,
                                    "the service's supervisor is silent, or this client does not "
                                    "read its trace"));
    }
    if (!write_active_) {
      const std::optional<v1::TraceResponse> part = context_.supervisor->trace_log().Take(trace_);
      if (part.has_value()) {
        writing_ = Serialize(*part);
        write_active_ = true;
        if (part->end_ns() != 0) {
          finished_ = true;
          StartWriteAndFinish(&writing_, grpc::WriteOptions(), grpc::Status::OK);
          return;
        }
        StartWrite(&writing_);
      }
    }
  }
  CallAfter(context_.loop, kTraceLook, this, &TraceSession::Look);
}

void TraceSession::FinishWith(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  FinishLocked(status);
}

void TraceSession::FinishLocked(const absl::Status& status) {
  if (finished_) return;
  finished_ = true;
  Finish(ToRpcStatus(status));
}

void TraceSession::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  write_active_ = false;
  if (!ok) FinishLocked(absl::CancelledError("the client is gone"));
}

}  // namespace bulkhead
