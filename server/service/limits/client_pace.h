#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace bulkhead {

// How fast one client may do something that costs the service time: some at once, then so much a
// second. Who does more waits, and is not refused: who asks again and again only waits longer.
// Thread-safe.
class ClientPace {
 public:
  // Clients that are remembered at most; those that may do a burst again are not.
  static constexpr size_t kMostKnown = 8192;

  // `burst`: the sum of intervals that a client which did nothing for long does not wait for.
  explicit ClientPace(absl::Duration burst) : burst_ns_(absl::ToInt64Nanoseconds(burst)) {}

  // How long `client` has to wait for what it did before. `now_ns` as MonotonicNanos.
  absl::Duration Wait(const std::string& client, int64_t now_ns) const ABSL_LOCKS_EXCLUDED(mutex_);
  // `client` does what it may do once in `interval`; how long that has to wait.
  absl::Duration Take(const std::string& client, absl::Duration interval, int64_t now_ns)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const int64_t burst_ns_;
  mutable absl::Mutex mutex_;
  // When what each does next would be due if it had no burst.
  std::map<std::string, int64_t> due_ns_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead
