#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// The batches that a client has asked for, of a stream that several services make. The call adds
// them, the stream takes them.
//
//   Assign ─▶ Add ─▶ waiting ─▶ Take, the lowest number first ─▶ begun ─▶ NoteSent
//
// Thread-safe.
class Assignments {
 public:
  // The most batches that may wait to be begun.
  static constexpr size_t kMostWaiting = 4096;

  // Adds batches, and drops those that are no longer needed. False if too many wait.
  bool Add(const v1::Assign& assign) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    waiting_.insert(assign.sequences().begin(), assign.sequences().end());
    waiting_.erase(waiting_.begin(), waiting_.lower_bound(assign.needed_from()));
    if (waiting_.size() > kMostWaiting) return false;
    last_ |= assign.last();
    if (added_ != nullptr) added_();
    return true;
  }
  // Takes the batch with the lowest number; absent if none waits.
  std::optional<uint64_t> Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (waiting_.empty()) return std::nullopt;
    const uint64_t sequence = *waiting_.begin();
    waiting_.erase(waiting_.begin());
    begun_.insert(sequence);
    return sequence;
  }
  // The client gets that batch.
  void NoteSent(uint64_t sequence) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (const auto found = begun_.find(sequence); found != begun_.end()) begun_.erase(found);
  }
  // Whether the client waits for no batch.
  bool empty() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return waiting_.empty() && begun_.empty();
  }
  // Whether it will ask for nothing more, and all was taken.
  bool exhausted() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return last_ && waiting_.empty();
  }

  // `added` is called after Add, on its thread; it must not call this object.
  void WhenAdded(std::function<void()> added) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    added_ = std::move(added);
  }

 private:
  mutable absl::Mutex mutex_;
  std::set<uint64_t> waiting_ ABSL_GUARDED_BY(mutex_);
  std::multiset<uint64_t> begun_ ABSL_GUARDED_BY(mutex_);  // not sent yet
  bool last_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> added_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead
