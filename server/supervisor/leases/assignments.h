#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>

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
  bool Add(const v1::Assign& assign) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the batch with the lowest number; absent if none waits.
  std::optional<uint64_t> Take() ABSL_LOCKS_EXCLUDED(mutex_);
  // The client gets that batch.
  void NoteSent(uint64_t sequence) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the client waits for no batch.
  bool empty() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether it will ask for nothing more, and all was taken.
  bool exhausted() const ABSL_LOCKS_EXCLUDED(mutex_);

  // `added` is called after Add, on its thread; it must not call this object.
  void WhenAdded(std::function<void()> added) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  std::set<uint64_t> waiting_ ABSL_GUARDED_BY(mutex_);
  std::multiset<uint64_t> begun_ ABSL_GUARDED_BY(mutex_);  // not sent yet
  bool last_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> added_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead
