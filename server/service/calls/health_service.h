#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/os/event_loop.h"
#include "server/service/access/access_rights.h"
#include "server/service/calls/late_refusal.h"
#include "server/service/calls/raw_service.h"
#include "server/service/limits/client_pace.h"
#include "server/service/limits/peers.h"

namespace bulkhead {

// The method Check of gRPC's health check (grpc.health.v1.Health), for callers with any right. Not
// gRPC's own service, which reads requests of everybody and keeps calls without end. Thread-safe.
class HealthService final : public RawService {
 public:
  // The service that a caller may ask about, beside "".
  static constexpr char kLoader[] = "bulkhead.v1.Loader";
  // Checks of one client that are answered at once, and how often one in the long run.
  static constexpr int kAtOnce = 100;
  static constexpr absl::Duration kInterval = absl::Milliseconds(10);
  // The longest wait of a check: gRPC does not end before all calls have.
  static constexpr absl::Duration kLongest = absl::Seconds(1);

  // `is_serving` is thread-safe. `peers` and `loop` outlive this.
  HealthService(AccessRights access, Peers& peers, EventLoop& loop,
                std::function<bool()> is_serving);

 private:
  RawCall* Begin(grpc::CallbackServerContext* rpc);
  // Does not block.
  absl::StatusOr<grpc::ByteBuffer> Answer(const grpc::ByteBuffer& bytes) const;

  const AccessRights access_;
  Peers& peers_;
  EventLoop& loop_;
  const std::function<bool()> is_serving_;
  ClientPace pace_{kAtOnce * kInterval};
  LateRefusals late_refusals_;
};

}  // namespace bulkhead
