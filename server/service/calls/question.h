#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/service/calls/request_call.h"
#include "server/service/limits/client_pace.h"
#include "server/service/session_context.h"

namespace bulkhead {

// A call with one request and one answer, which is made when its client's pace allows, on a thread
// of its own, since that may block.
class Question final : public RequestCall {
 public:
  using Answer = std::function<absl::StatusOr<grpc::ByteBuffer>(const grpc::ByteBuffer& request)>;

  // The call has a place in context.sessions as a question of `client`. `pace` and what `context`
  // names outlive it; of this client it allows a question each `interval`.
  Question(const SessionContext& context, std::string client, ClientPace* pace,
           absl::Duration interval, Answer answer)
      : loop_(context.loop),
        sessions_(context.sessions),
        client_(std::move(client)),
        pace_(pace),
        interval_(interval),
        answer_(std::move(answer)) {}

 private:
  void OnRequest(grpc::ByteBuffer bytes) override;
  void FinishWith(const absl::Status& status) override { End(status); }
  void OnGone() override {}  // a thread may work for it

  void Work(const grpc::ByteBuffer& bytes);
  void End(absl::StatusOr<grpc::ByteBuffer> answer) ABSL_LOCKS_EXCLUDED(mutex_);

  EventLoop* const loop_;
  SessionRegistry* const sessions_;
  const std::string client_;
  ClientPace* const pace_;
  const absl::Duration interval_;
  const Answer answer_;
  absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ByteBuffer response_;
};

}  // namespace bulkhead
