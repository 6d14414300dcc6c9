#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/os/event_loop.h"
#include "server/service/calls/raw_service.h"

namespace bulkhead {

// A call with one request. Keeps itself alive until gRPC is done with it.
class RequestCall : public RawCall, public std::enable_shared_from_this<RequestCall> {
 public:
  // For the whole request to come: what is there of it takes memory.
  static constexpr absl::Duration kPatience = absl::Seconds(30);

  // Reads the request of `call`, and returns it, for gRPC. `loop` outlives it. `on_done`: called
  // when gRPC is done with it; may be null.
  static RawCall* Start(const std::shared_ptr<RequestCall>& call, EventLoop* loop,
                        std::function<void()> on_done = nullptr);

  void OnReadDone(bool ok) final;
  void OnCancel() final;
  // May delete this.
  void OnDone() final;

 protected:
  // The request is there. Must not block.
  virtual void OnRequest(grpc::ByteBuffer bytes) = 0;
  // Ends the call with `status`, unless that was done already. Thread-safe.
  virtual void FinishWith(const absl::Status& status) = 0;
  // gRPC is done with the call.
  virtual void OnEnd() {}
  // The client has cancelled the call, whose request had come.
  virtual void OnGone() { FinishWith(absl::CancelledError("the client is gone")); }

 private:
  void OnLate();

  std::shared_ptr<RequestCall> self_;  // until OnDone
  std::function<void()> on_done_;
  grpc::ByteBuffer request_;
  std::atomic<bool> came_{false};
};

}  // namespace bulkhead
