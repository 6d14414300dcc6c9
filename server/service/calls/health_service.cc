#include "server/service/calls/health_service.h"

#include <memory>
#include <utility>

#include "grpc/health/v1/health.pb.h"
#include "server/base/error.h"
#include "server/service/calls/question.h"
#include "server/service/raw_messages.h"

namespace bulkhead {

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
  return RequestCall::Start(
      std::make_shared<Question>(&loop_, nullptr, peers_.ClientOf(peer),
                                 Question::Pace{&pace_, kInterval, kLongest},
                                 [this](const grpc::ByteBuffer& bytes) { return Answer(bytes); }),
      &loop_);
}

absl::StatusOr<grpc::ByteBuffer> HealthService::Answer(const grpc::ByteBuffer& bytes) const {
  grpc::health::v1::HealthCheckRequest request;
  BULKHEAD_RETURN_IF_ERROR(ParseRequest(bytes, request));
  if (!request.service().empty() && request.service() != kLoader) {
    return absl::NotFoundError("this service is bulkhead.v1.Loader");
  }
  using Response = grpc::health::v1::HealthCheckResponse;
  Response response;
  response.set_status(is_serving_() ? Response::SERVING : Response::NOT_SERVING);
  return Serialize(response);
}

}  // namespace bulkhead
