#ifndef BULKHEAD_SERVER_SERVICE_LIMITS_HEALTH_PACE_H_
#define BULKHEAD_SERVER_SERVICE_LIMITS_HEALTH_PACE_H_

#include <grpcpp/support/server_interceptor.h>

#include "absl/time/time.h"
#include "server/os/event_loop.h"
#include "server/service/limits/client_pace.h"
#include "server/service/limits/peers.h"

namespace bulkhead {

// Answers one client's health checks at a limited rate. They are gRPC's own service, so each waits
// as it arrives, before gRPC answers it. Thread-safe.
class HealthPace final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // Checks of one client that are answered at once, and how often one in the long run.
  static constexpr int kAtOnce = 100;
  static constexpr absl::Duration kInterval = absl::Milliseconds(10);
  // The longest wait of a check: gRPC does not end before all calls have.
  static constexpr absl::Duration kLongest = absl::Seconds(1);

  // Both outlive gRPC's server.
  HealthPace(const Peers& peers, EventLoop& loop) : peers_(peers), loop_(loop) {}

  // Null: the call is no health check.
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override;

 private:
  class Check;

  const Peers& peers_;
  EventLoop& loop_;
  ClientPace pace_{kAtOnce * kInterval};
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_LIMITS_HEALTH_PACE_H_
