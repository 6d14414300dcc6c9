#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"
#include "server/os/monotonic_wait.h"
#include "server/os/process/thread.h"

namespace bulkhead {

// Limits the number of calls, and counts the threads that work for them. A thread may outlive a
// call whose storage hangs; the service ends only when none is left. A draining service accepts no
// calls.
//
// Sessions (Stream, Describe) last as long as their clients want; questions are answered at once.
// No single caller, by name, process or host (Peers), can take all places. If all places are taken,
// a newcomer gets that of the longest unread stream, if that has been unread for long.
//
//   TryAdd ─▶ has a place ─Offer─▶ may lose it while unread ─▶ ends without one ─▶ Remove
//
// Thread-safe.
class SessionRegistry {
 public:
  static constexpr uint32_t kMaxSessions = 256;
  static constexpr uint32_t kMaxSessionsOfOne = kMaxSessions / 2;
  static constexpr uint32_t kMaxQuestions = 64;
  static constexpr uint32_t kMaxQuestionsOfOne = kMaxQuestions / 2;
  // Higher than kMaxSessions: threads of abandoned calls may hang.
  static constexpr uint32_t kMaxThreads = 2 * kMaxSessions;

  // Since when a client has left something waiting (MonotonicNanos); 0: it does not.
  using UnreadSince = std::shared_ptr<const std::atomic<int64_t>>;

  // `idle`: how long a stream is unread before it can lose its place.
  explicit SessionRegistry(absl::Duration idle = absl::InfiniteDuration()) : idle_(idle) {}
  absl::Duration idle() const { return idle_; }

  // Admits a session of `caller`, and returns its id. Errors: UNAVAILABLE (SHUTTING_DOWN) while
  // the service drains; RESOURCE_EXHAUSTED if there are too many.
  absl::StatusOr<uint64_t> TryAdd(const std::string& caller) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::function<void()> evict;
    uint64_t id = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (draining_) return Draining();
      if (threads_ >= kMaxThreads) return TooMany("this service already", kMaxSessions);
      absl::Status taken = places_.Take(caller, kMaxSessions, kMaxSessionsOfOne);
      if (!taken.ok()) {
        evict = TakeUnread(caller);
        if (evict == nullptr) return taken;
        taken = places_.Take(caller, kMaxSessions, kMaxSessionsOfOne);
      }
      id = ++last_id_;
      sessions_[id].caller = caller;
    }
    if (evict != nullptr) evict();
    return id;
  }
  // Another session may get the place of session `id` while it is unread for long. `evict` ends it
  // soon; it is called at most once, on any thread.
  void Offer(uint64_t id, UnreadSince unread_since, std::function<void()> evict)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto session = sessions_.find(id);
    if (session == sessions_.end()) return;
    session->second.unread_since = std::move(unread_since);
    session->second.evict = std::move(evict);
  }
  // The session has ended.
  void Remove(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto session = sessions_.find(id);
    if (session->second.has_place) places_.GiveBack(session->second.caller);
    sessions_.erase(session);
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
      return sessions_.empty() && threads_ == 0;
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
      if (HasAll(caller, most_of_one)) {
        return TooMany(absl::StrCat("for ", caller, " this service already"), most_of_one);
      }
      if (total >= most) return TooMany("this service already", most);
      ++total;
      ++by_caller[caller];
      return absl::OkStatus();
    }
    void GiveBack(const std::string& caller) {
      --total;
      const auto found = by_caller.find(caller);
      if (--found->second == 0) by_caller.erase(found);
    }

    // Whether a caller has all that one may have.
    bool HasAll(const std::string& caller, uint32_t most_of_one) const {
      const auto found = by_caller.find(caller);
      return found != by_caller.end() && found->second >= most_of_one;
    }

    uint32_t total = 0;
    std::map<std::string, uint32_t> by_caller;
  };
  struct Session {
    std::string caller;
    bool has_place = true;
    UnreadSince unread_since;  // null: it keeps its place
    std::function<void()> evict;
  };

  // Takes a place that helps `caller` from the longest unread stream. Returns what ends that; null:
  // there is none.
  std::function<void()> TakeUnread(const std::string& caller)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // Those that end without a place are limited, too.
    if (sessions_.size() >= 2 * kMaxSessions) return nullptr;
    const bool of_its_own = places_.HasAll(caller, kMaxSessionsOfOne);
    int64_t longest_since_ns = MonotonicNanos() - absl::ToInt64Nanoseconds(idle_);
    Session* longest = nullptr;
    for (auto& [id, session] : sessions_) {
      if (session.unread_since == nullptr || (of_its_own && session.caller != caller)) continue;
      const int64_t since_ns = *session.unread_since;
      if (since_ns == 0 || since_ns > longest_since_ns) continue;
      longest_since_ns = since_ns;
      longest = &session;
    }
    if (longest == nullptr) return nullptr;
    places_.GiveBack(longest->caller);
    longest->has_place = false;
    longest->unread_since = nullptr;
    return std::exchange(longest->evict, nullptr);
  }

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
  const absl::Duration idle_;
  Places places_ ABSL_GUARDED_BY(mutex_);                         // of sessions
  std::map<uint64_t, Session> sessions_ ABSL_GUARDED_BY(mutex_);  // by id
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  Places questions_ ABSL_GUARDED_BY(mutex_);
  uint32_t threads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bulkhead
