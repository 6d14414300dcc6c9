#ifndef BULKHEAD_SERVER_SERVICE_SESSION_REGISTRY_H_
#define BULKHEAD_SERVER_SERVICE_SESSION_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
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
// calls.
//
// Sessions (Stream, Describe) last as long as their clients want; questions are answered at once.
// No single caller, by name, process or host (Peers), can take all places. Thread-safe.
class SessionRegistry {
 public:
  static constexpr uint32_t kMaxSessions = 256;
  static constexpr uint32_t kMaxSessionsOfOne = kMaxSessions / 2;
  static constexpr uint32_t kMaxQuestions = 64;
  static constexpr uint32_t kMaxQuestionsOfOne = kMaxQuestions / 2;
  // Higher than kMaxSessions: threads of abandoned calls may hang.
  static constexpr uint32_t kMaxThreads = 2 * kMaxSessions;

  // Admits a session of `caller`. Errors: UNAVAILABLE (SHUTTING_DOWN) while
  // the service drains; RESOURCE_EXHAUSTED if there are too many.
  absl::Status TryAdd(const std::string& caller) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (draining_) return Draining();
    if (threads_ >= kMaxThreads) return TooMany("this service already", kMaxSessions);
    return sessions_.Take(caller, kMaxSessions, kMaxSessionsOfOne);
  }
  void Remove(const std::string& caller) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    sessions_.GiveBack(caller);
  }
  // The same for a question; some are still answered while the service drains.
  absl::Status TryAddQuestion(const std::string& caller) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return questions_.Take(caller, kMaxQuestions, kMaxQuestionsOfOne);
  }
  void RemoveQuestion(const std::string& caller) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    questions_.GiveBack(caller);
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
      return sessions_.total == 0 && threads_ == 0;
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
  // Calls of one kind.
  struct Places {
    absl::Status Take(const std::string& caller, uint32_t most, uint32_t most_of_one) {
      if (total >= most) return TooMany("this service already", most);
      if (by_caller[caller] >= most_of_one) {
        return TooMany(absl::StrCat("for ", caller, " this service already"), most_of_one);
      }
      ++total;
      ++by_caller[caller];
      return absl::OkStatus();
    }
    void GiveBack(const std::string& caller) {
      --total;
      const auto found = by_caller.find(caller);
      if (--found->second == 0) by_caller.erase(found);
    }

    uint32_t total = 0;
    std::map<std::string, uint32_t> by_caller;
  };

  static absl::Status TooMany(absl::string_view who, uint32_t calls) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, reason::kTooManyCalls,
        absl::StrCat(who, " serves ", calls, " calls; close some, or use another service"));
  }

  void AddThread() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ++threads_;
  }
  void RemoveThread() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --threads_;
  }

  mutable absl::Mutex mutex_;
  Places sessions_ ABSL_GUARDED_BY(mutex_);
  Places questions_ ABSL_GUARDED_BY(mutex_);
  uint32_t threads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_SESSION_REGISTRY_H_
