#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/base/rate_limit.h"
#include "server/service/limits/peers.h"

namespace bulkhead {

// Hangs up on connections that make calls faster than any client of ours. A call takes gRPC some
// kilobytes before it can be refused, and one that its client cancels at once counts to no limit of
// gRPC 1.51 (CVE-2023-44487). Calls of every method count, as they arrive. Thread-safe.
class CallRate final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // Calls of a connection at once, and a second in the long run.
  static constexpr double kBurst = 1000;
  static constexpr double kPerSecond = 500;
  // The same of a client (Peers::ClientOf). Beyond it, each connection has its first few calls.
  static constexpr double kBurstOfClient = 4000;
  static constexpr double kPerSecondOfClient = 2000;
  static constexpr uint64_t kFirstCalls = 8;

  // Outlives gRPC's server.
  explicit CallRate(Peers& peers) : peers_(peers) {}

  // Null: calls are only counted.
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override;

  // Whether `connection` of `client` may make a call now. `now_ns` as MonotonicNanos.
  bool Take(const std::string& connection, const std::string& client, int64_t now_ns)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Those that are remembered at most; those that may make a full burst are forgotten.
  static constexpr size_t kMostKnown = 8192;
  struct Calls {
    RateLimit rate;
    uint64_t count = 0;
  };
  using Known = std::map<std::string, Calls>;

  // Null: there is no room for another name.
  static Calls* Find(Known& known, const std::string& name, RateLimit fresh, int64_t now_ns);

  Peers& peers_;
  absl::Mutex mutex_;
  Known connections_ ABSL_GUARDED_BY(mutex_);
  Known clients_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead
