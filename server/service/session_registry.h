#ifndef BULKHEAD_SERVER_SERVICE_SESSION_REGISTRY_H_
#define BULKHEAD_SERVER_SERVICE_SESSION_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/os/monotonic_wait.h"
#include "server/os/process/thread.h"

namespace bulkhead {

// Limits the number of calls, and counts the threads that work for them. A thread may outlive a
// call whose storage hangs; the service ends only when none is left. A draining service accepts no
// calls. Thread-safe.
class SessionRegistry {
 public:
  static constexpr uint32_t kMaxSessions = 256;
  // Higher than kMaxSessions: threads of abandoned calls may hang.
  static constexpr uint32_t kMaxThreads = 2 * kMaxSessions;

  // Admits a session. Errors: UNAVAILABLE (SHUTTING_DOWN) while the service drains;
  // RESOURCE_EXHAUSTED if there are too many.
  absl::Status TryAdd() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (draining_) return Draining();
    if (sessions_ >= kMaxSessions || threads_ >= kMaxThreads) {
      return MakeError(absl::StatusCode::kResourceExhausted, reason::kTooManyCalls,
                       absl::StrCat("this service already serves ", kMaxSessions,
                                    " calls; close some, or use another service"));
    }
    ++sessions_;
    return absl::OkStatus();
  }
  void Remove() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --sessions_;
  }
  // Runs `work` on its own thread, which counts until what `work` holds is gone. Errors: those of
  // StartDetachedThread.
  absl::Status StartThread(std::function<void()> work) ABSL_LOCKS_EXCLUDED(mutex_) {
    AddThread();
    const absl::Status started = StartDetachedThread([this, work = std::move(work)]() mutable {
      work();
      work = nullptr;
      RemoveThread();
    });
    if (!started.ok()) RemoveThread();
    return started;
  }
  // False if calls or threads are left after `patience`.
  bool WaitUntilEmpty(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto empty = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return sessions_ == 0 && threads_ == 0;
    };
    return AwaitFor(mutex_, empty, patience);
  }

  void StartDraining() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
  }
  bool draining() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return draining_;
  }
  // Status of calls that end because the service drains.
  static absl::Status Draining() {
    return MakeError(absl::StatusCode::kUnavailable, reason::kShuttingDown,
                     "the service is shutting down");
  }

 private:
  void AddThread() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ++threads_;
  }
  void RemoveThread() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --threads_;
  }

  mutable absl::Mutex mutex_;
  uint32_t sessions_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t threads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_SESSION_REGISTRY_H_
