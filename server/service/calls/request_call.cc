#include "server/service/calls/request_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/service/calls/call_after.h"
#include "server/service/raw_messages.h"

namespace bulkhead {
RawCall* RequestCall::Start(const std::shared_ptr<RequestCall>& call, EventLoop* loop,
                            std::function<void()> on_done) {
  call->self_ = call;
  call->on_done_ = std::move(on_done);
  CallAfter(loop, kPatience, call.get(), &RequestCall::OnLate);
  call->StartRead(&call->request_);
  return call.get();
}

void RequestCall::OnLate() {
  if (came_) return;
  FinishWith(ProtocolViolation(
      absl::StrCat("the request did not come within ", absl::ToInt64Seconds(kPatience), " s")));
}

void RequestCall::OnReadDone(bool ok) {
  came_ = ok;
  if (ok) {
    OnRequest(std::exchange(request_, grpc::ByteBuffer()));
  } else {
    FinishWith(ProtocolViolation("the call has no request"));
  }
}

void RequestCall::OnCancel() {
  if (came_) {
    OnGone();
  } else {
    FinishWith(absl::CancelledError("the client is gone"));
  }
}

void RequestCall::OnDone() {
  OnEnd();
  const std::function<void()> on_done = std::move(on_done_);
  self_.reset();  // may delete this
  if (on_done != nullptr) on_done();
}

}  // namespace bulkhead
