#ifndef BULKHEAD_SERVER_SERVICE_SESSION_REGISTRY_H_
#define BULKHEAD_SERVER_SERVICE_SESSION_REGISTRY_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace bulkhead {

// Counts the sessions that live, so that there are never too many, and so that the service ends
// only when none is left. Thread-safe.
class SessionRegistry {
 public:
  static constexpr uint32_t kMaxSessions = 256;

  // False when there are too many: then the session must not begin.
  bool TryAdd() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (sessions_ >= kMaxSessions) return false;
    ++sessions_;
    return true;
  }
  void Remove() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --sessions_;
  }
  void WaitUntilEmpty() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto empty = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return sessions_ == 0; };
    mutex_.Await(absl::Condition(&empty));
  }

 private:
  absl::Mutex mutex_;
  uint32_t sessions_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_SESSION_REGISTRY_H_
