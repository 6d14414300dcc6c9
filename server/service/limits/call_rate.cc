#include "server/service/limits/call_rate.h"

#include <grpcpp/server_context.h>

#include "server/os/event_loop.h"

namespace bulkhead {

grpc::experimental::Interceptor* CallRate::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* call) {
  const std::string peer = call->server_context()->peer();  // empty: it was cancelled
  const std::string client = peer.empty() ? "a client" : peers_.ClientOf(peer);
  const int64_t now_ns = MonotonicNanos();
  if (Take(peers_.ConnectionOf(peer), client, now_ns)) return nullptr;
  peer.empty() ? peers_.HangUpOnLoudest(now_ns) : peers_.HangUp(peer);
  return nullptr;
}

bool CallRate::Take(const std::string& connection, const std::string& client, int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  Calls* const its = Find(connections_, connection, RateLimit(kPerSecond, kBurst), now_ns);
  Calls* const all = Find(clients_, client, RateLimit(kPerSecondOfClient, kBurstOfClient), now_ns);
  if (its == nullptr || all == nullptr) return false;
  const bool few = ++its->count <= kFirstCalls;
  const bool of_client = all->rate.Take(now_ns);
  return its->rate.Take(now_ns) && (of_client || few);
}

CallRate::Calls* CallRate::Find(Known& known, const std::string& name, RateLimit fresh,
                                int64_t now_ns) {
  const auto found = known.find(name);
  if (found != known.end()) return &found->second;
  if (known.size() >= kMostKnown) {
    std::erase_if(known,
                  [&](const auto& one) { return RateLimit(one.second.rate).IsFull(now_ns); });
    if (known.size() >= kMostKnown) return nullptr;
  }
  return &known.emplace(name, Calls{fresh}).first->second;
}

}  // namespace bulkhead
