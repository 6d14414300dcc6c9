#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "server/base/rate_limit.h"

namespace bulkhead {

// Limits the connections over TCP, before anybody knows who they are: how many a host and all hosts
// have, and how often a host makes new ones, as each is worth a handshake. What was admitted counts
// until its socket is closed, by whomever. Not thread-safe.
class ConnectionLimits {
 public:
  static constexpr size_t kMostOfHost = 512;
  static constexpr size_t kMost = 4096;
  // In the long run; a job's ranks on a host connect at once.
  static constexpr double kPerSecond = 8;
  static constexpr double kBurst = 256;

  // Counts `connection`, a socket, of `host`. Errors: RESOURCE_EXHAUSTED, for the log, where it has
  // to be closed. `now_ns` as MonotonicNanos.
  absl::Status Admit(int connection, const std::string& host, int64_t now_ns);

 private:
  // Counted connections are found to be closed at most so often: with a full house each look costs.
  static constexpr int64_t kLookNanos = 100'000'000;
  struct Host {
    std::map<int, uint64_t> sockets;  // descriptor → SocketNumber
    RateLimit rate{kPerSecond, kBurst};
  };

  // Forgets what was closed, and hosts of which nothing is left to know.
  void Look(int64_t now_ns);

  std::map<std::string, Host> hosts_;
  size_t total_ = 0;
  int64_t looked_ns_ = -kLookNanos;
};

}  // namespace bulkhead
