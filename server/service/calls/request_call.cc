#include "server/service/calls/request_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

absl::Status NoRequest(absl::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kProtocolViolation, why);
}

}  // namespace

RawCall* RequestCall::Start(const std::shared_ptr<RequestCall>& call, EventLoop* loop) {
  call->self_ = call;
  loop->Post([loop, weak = std::weak_ptr<RequestCall>(call)] {
    loop->After(kPatience, [weak] {
      const auto late = weak.lock();
      if (late == nullptr || late->came_) return;
      late->FinishWith(NoRequest(
          absl::StrCat("the request did not come within ", absl::ToInt64Seconds(kPatience), " s")));
    });
  });
  call->StartRead(&call->request_);
  return call.get();
}

void RequestCall::OnReadDone(bool ok) {
  came_ = ok;
  if (ok) {
    OnRequest(std::exchange(request_, grpc::ByteBuffer()));
  } else {
    FinishWith(NoRequest("the call has no request"));
  }
}

void RequestCall::OnCancel() {
  if (came_) {
    OnGone();
  } else {
    FinishWith(absl::CancelledError("the client is gone"));
  }
}

}  // namespace bulkhead
