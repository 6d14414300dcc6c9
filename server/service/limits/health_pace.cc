#include "server/service/limits/health_pace.h"

#include <grpcpp/server_context.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "server/os/event_loop.h"

namespace bulkhead {

class HealthPace::Check final : public grpc::experimental::Interceptor {
 public:
  Check(HealthPace& pace, std::string client) : pace_(pace), client_(std::move(client)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* call) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    absl::Duration wait;
    if (call->QueryInterceptionHookPoint(Point::POST_RECV_INITIAL_METADATA)) {
      wait = std::min(kLongest, pace_.pace_.Take(client_, kInterval, MonotonicNanos()));
    }
    if (wait == absl::ZeroDuration()) {
      call->Proceed();
      return;
    }
    EventLoop& loop = pace_.loop_;
    loop.Post([&loop, wait, call] { loop.After(wait, [call] { call->Proceed(); }); });
  }

 private:
  HealthPace& pace_;
  const std::string client_;
};

grpc::experimental::Interceptor* HealthPace::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* call) {
  if (!absl::StartsWith(call->method(), "/grpc.health.v1.Health/")) return nullptr;
  return new Check(*this, peers_.ClientOf(call->server_context()->peer()));
}

}  // namespace bulkhead
