#ifndef BULKHEAD_SERVER_SERVICE_LIMITS_QUESTION_PACE_H_
#define BULKHEAD_SERVER_SERVICE_LIMITS_QUESTION_PACE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace bulkhead {

// How fast one client's questions are answered: some at once, then kPerSecond. The others wait,
// and are not refused: who asks again and again only waits longer. Thread-safe.
class QuestionPace {
 public:
  static constexpr int64_t kPerSecond = 20;
  static constexpr int64_t kBurst = 100;
  // Clients that are remembered at most; those that may ask a burst again are not.
  static constexpr size_t kMostKnown = 8192;

  // How long a question that `client` asks now has to wait. `now_ns` as MonotonicNanos.
  absl::Duration Wait(const std::string& client, int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  // When its next question would be due if it had no burst.
  std::map<std::string, int64_t> due_ns_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_LIMITS_QUESTION_PACE_H_
