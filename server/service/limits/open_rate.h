#ifndef BULKHEAD_SERVER_SERVICE_LIMITS_OPEN_RATE_H_
#define BULKHEAD_SERVER_SERVICE_LIMITS_OPEN_RATE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/base/rate_limit.h"

namespace bulkhead {

// Limits how often one connection and one client begin to stream or to describe a spec, which costs
// the service more than it costs them. Each may do so a number of times at once, as the ranks of a
// job do when they start, and `per_second` times a second in the long run. Thread-safe.
class OpenRate {
 public:
  static constexpr double kPerSecond = 8;
  static constexpr double kBurstOfConnection = 64;
  static constexpr double kBurstOfClient = 256;
  // Connections and clients that are remembered at most; those that may open a burst again are not.
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

#endif  // BULKHEAD_SERVER_SERVICE_LIMITS_OPEN_RATE_H_
