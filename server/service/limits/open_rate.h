#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/base/rate_limit.h"

namespace bulkhead {

// Limits how often one connection and one client open streams and describe specs, which costs the
// service more than the client. Each may open a burst, as the ranks of a job do when they start,
// and in the long run `per_second` a second. Thread-safe.
class OpenRate {
 public:
  static constexpr double kPerSecond = 2;
  static constexpr double kBurstOfConnection = 64;
  static constexpr double kBurstOfClient = 256;
  // The most connections and clients that are remembered. Those that may open a full burst again
  // are forgotten.
  static constexpr size_t kMostKnown = 8192;

  // 0 a second: no limit.
  explicit OpenRate(double per_second = kPerSecond) : per_second_(per_second) {}

  // Counts an opening by `client` on `connection`. RESOURCE_EXHAUSTED (OPENED_TOO_OFTEN) if it
  // comes too soon. `now_ns` as MonotonicNanos.
  absl::Status Take(const std::string& connection, const std::string& client, int64_t now_ns)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Known = std::map<std::string, RateLimit>;

  // False if there is no room for another name.
  bool TakeOf(Known& known, const std::string& name, double burst, int64_t now_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const double per_second_;
  absl::Mutex mutex_;
  Known connections_ ABSL_GUARDED_BY(mutex_);
  Known clients_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead
