#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/supervisor/memory/arena_memory.h"

namespace bulkhead {

// What the service has given to one stream: name, slots, memory, workers, and its place with the
// supervisor. End gives all of it back at once; claims added later are given back immediately.
// Thread-safe.
class StreamClaims {
 public:
  // `give_back` is called once, without a lock held.
  void Add(std::function<void()> give_back) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (!ended_) {
        claims_.push_back(std::move(give_back));
        return;
      }
    }
    give_back();
  }
  // The arena, and what keeps the stream's workers.
  void SetMemory(std::shared_ptr<ArenaMemory> memory, std::shared_ptr<const void> workers)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (ended_) return;
    memory_ = std::move(memory);
    workers_ = std::move(workers);
  }

  // `bequeath`: another stream takes over, so the arena is given back even if the client still
  // reads it or has vanished. Returns what that stream inherits; null: nothing.
  std::shared_ptr<Legacy> End(bool bequeath = false) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::ReleasableMutexLock lock(&mutex_);
    ended_ = true;
    const std::vector<std::function<void()>> claims = std::exchange(claims_, {});
    const std::shared_ptr<const void> workers = std::exchange(workers_, nullptr);
    const std::shared_ptr<ArenaMemory> memory = std::exchange(memory_, nullptr);
    lock.Release();
    std::shared_ptr<Legacy> legacy;
    if (bequeath && memory != nullptr) legacy = memory->Bequeath(workers);
    // In reverse order of Add.
    for (auto claim = claims.rbegin(); claim != claims.rend(); ++claim) (*claim)();
    return legacy;
  }

 private:
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> claims_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ArenaMemory> memory_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const void> workers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead
