#include "server/service/calls/health_service.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "grpc/health/v1/health.pb.h"
#include "server/service/calls/request_call.h"
#include "server/service/raw_messages.h"
#include "server/service/rpc_error.h"

namespace bulkhead {

// One call. Nothing of it blocks, so it needs no thread of its own.
class HealthService::Check final : public RequestCall {
 public:
  Check(HealthService& service, std::string client)
      : service_(service), client_(std::move(client)) {}

 private:
  using Response = grpc::health::v1::HealthCheckResponse;

  void OnRequest(grpc::ByteBuffer bytes) override {
    const absl::Duration wait =
        std::min(kLongest, service_.pace_.Take(client_, kInterval, MonotonicNanos()));
    const auto self = std::static_pointer_cast<Check>(shared_from_this());
    auto answer = [self, bytes = std::move(bytes)] { self->Answer(bytes); };
    if (wait == absl::ZeroDuration()) {
      answer();
      return;
    }
    EventLoop& loop = service_.loop_;
    loop.Post([&loop, wait, answer = std::move(answer)] { loop.After(wait, answer); });
  }

  void FinishWith(const absl::Status& status) override {
    if (!ended_.exchange(true)) Finish(ToRpcStatus(status));
  }

  void Answer(const grpc::ByteBuffer& bytes) {
    grpc::health::v1::HealthCheckRequest request;
    absl::Status answered = ParseRequest(bytes, request);
    if (answered.ok() && !request.service().empty() && request.service() != kLoader) {
      answered = absl::NotFoundError("this service is bulkhead.v1.Loader");
    }
    if (!answered.ok()) {
      FinishWith(answered);
      return;
    }
    if (ended_.exchange(true)) return;
    Response response;
    response.set_status(service_.is_serving_() ? Response::SERVING : Response::NOT_SERVING);
    response_ = Serialize(response);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }

  HealthService& service_;
  const std::string client_;
  std::atomic<bool> ended_{false};
  grpc::ByteBuffer response_;
};

HealthService::HealthService(AccessRights access, Peers& peers, EventLoop& loop,
                             std::function<bool()> is_serving)
    : access_(std::move(access)), peers_(peers), loop_(loop), is_serving_(std::move(is_serving)) {
  Handle("/grpc.health.v1.Health/Check",
         [this](grpc::CallbackServerContext* rpc) { return Begin(rpc); });
}

RawCall* HealthService::Begin(grpc::CallbackServerContext* rpc) {
  const absl::Status known = access_.CheckAny(*rpc);
  if (!known.ok()) return LateRefusal::Start(known, &loop_, &late_refusals_);
  const std::string peer = rpc->peer();
  peers_.Allow(peer);
  return RequestCall::Start(std::make_shared<Check>(*this, peers_.ClientOf(peer)), &loop_);
}

}  // namespace bulkhead
