#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/service/calls/request_call.h"
#include "server/service/limits/client_pace.h"
#include "server/service/session_registry.h"

namespace bulkhead {

// A call with one request and one answer, which is made when its client's pace allows: on a thread
// of its own, or on gRPC's or the loop's if it cannot block.
class Question final : public RequestCall {
 public:
  using Answer = std::function<absl::StatusOr<grpc::ByteBuffer>(const grpc::ByteBuffer& request)>;
  // How often a client may ask.
  struct Pace {
    ClientPace* clients = nullptr;
    absl::Duration interval;  // between two of its questions, in the long run
    absl::Duration longest = absl::InfiniteDuration();  // that a question waits
  };

  // A call of `client`, for which it has a place as a question in `sessions`; null: it takes no
  // place, and `answer` does not block. `loop`, `sessions` and `pace.clients` outlive it.
  Question(EventLoop* loop, SessionRegistry* sessions, std::string client, const Pace& pace,
           Answer answer)
      : loop_(loop),
        sessions_(sessions),
        client_(std::move(client)),
        pace_(pace),
        answer_(std::move(answer)) {}

 private:
  void OnRequest(grpc::ByteBuffer bytes) override;
  void FinishWith(const absl::Status& status) override { End(status); }
  void OnGone() override {
    if (sessions_ == nullptr) RequestCall::OnGone();  // else a thread may work for it
  }
  void Work(const grpc::ByteBuffer& bytes);
  void End(absl::StatusOr<grpc::ByteBuffer> answer);

  EventLoop* const loop_;
  SessionRegistry* const sessions_;
  const std::string client_;
  const Pace pace_;
  const Answer answer_;
  std::atomic<bool> ended_{false};
  grpc::ByteBuffer response_;
};

}  // namespace bulkhead
