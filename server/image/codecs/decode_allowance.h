#pragma once

#include <cstdint>
#include <list>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace bulkhead {

// The memory for decoded images of all threads of one worker together. A thread reserves the memory
// that its image will need before it decodes, and waits while the others hold too much, so that
// several large images at once do not end the worker at its quota.
//
// An image that needs more than the whole allowance runs alone, once no other thread decodes. A
// thread that holds a share and needs more (a second image of the same sample) comes before those
// that hold none. If all holders wait, the first of them goes on, so no thread waits forever.
// Waiting threads are served in order of arrival, so that a large image is not passed over again
// and again.
//
//   DecodeAllowance allowance(bytes, threads);         // of the worker
//   DecodeShare share; share.SetAllowance(&allowance); // of each thread
//   share.Take(planned_bytes);                         // may wait
//   …
//   if (share.GiveBack()) …                            // the sample is done: drop large buffers
//
// Thread-safe; outlives its shares.
class DecodeAllowance {
 public:
  DecodeAllowance(uint64_t bytes, uint32_t threads);

  // Threads that wait for a share.
  size_t waiting() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class DecodeShare;
  struct Waiter {
    uint64_t bytes = 0;
    bool holds = false;  // a share already
    bool granted = false;
  };

  // The buffers that one thread may keep between samples without reserving them.
  uint64_t keep_bytes() const { return keep_bytes_; }
  void Take(uint64_t bytes, bool holds) ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveBack(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void GrantInOrder() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t bytes_;
  const uint64_t keep_bytes_;
  mutable absl::Mutex mutex_;
  uint64_t taken_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t at_work_ ABSL_GUARDED_BY(mutex_) = 0;  // holders that do not wait for more
  std::list<Waiter*> line_ ABSL_GUARDED_BY(mutex_);
};

// The memory that one thread has reserved for its current sample. Without an allowance it reserves
// nothing and never waits. Used by one thread.
class DecodeShare {
 public:
  DecodeShare() = default;
  ~DecodeShare() { GiveBack(); }
  DecodeShare(const DecodeShare&) = delete;
  DecodeShare& operator=(const DecodeShare&) = delete;

  // Before the first Take.
  void SetAllowance(DecodeAllowance* allowance) { allowance_ = allowance; }
  // Blocks while others hold too much.
  void Take(uint64_t bytes);
  // Gives everything back. True if it was so much that the thread must not keep its buffers for the
  // next sample.
  bool GiveBack();

 private:
  DecodeAllowance* allowance_ = nullptr;
  uint64_t taken_bytes_ = 0;
};

}  // namespace bulkhead
