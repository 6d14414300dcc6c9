#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/os/files/fd.h"
#include "server/os/timers.h"

namespace bulkhead {

// Serves descriptors, timers and posted functions on one thread, one after another, so that objects
// on the loop need no lock. Time is CLOCK_MONOTONIC.
//
// Life: Create → (any thread) Post … → Run on the owning thread → Stop. Post, Stop and SilentFor
// are thread-safe; all else belongs to the thread that calls Run, or, before Run, to any one
// thread.
class EventLoop {
 public:
  using Callback = std::function<void()>;
  using TimerId = Timers::Id;

  static absl::StatusOr<std::unique_ptr<EventLoop>> Create();

  // Calls `callback` whenever `fd` is readable or its peer hung up, until Unwatch. The caller keeps
  // owning the descriptor.
  absl::Status Watch(int fd, Callback callback);
  // Calls `callback` whenever the watched `fd` is writable, until UnwatchWritable or Unwatch.
  absl::Status WatchWritable(int fd, Callback callback);
  void UnwatchWritable(int fd);
  // Ends both. Call it before the descriptor is closed, or at the latest before the loop continues,
  // because another file may get its number. Safe inside callbacks, including the descriptor's own.
  void Unwatch(int fd);
  // Number of watched descriptors.
  size_t watched() const { return watched_.size(); }

  // Calls `callback` once, after `delay`.
  TimerId After(absl::Duration delay, Callback callback) {
    return timers_.After(delay, std::move(callback));
  }
  void Cancel(TimerId timer) { timers_.Cancel(timer); }

  // Runs `callback` soon on the loop's thread. After Stop it may never run.
  void Post(Callback callback) ABSL_LOCKS_EXCLUDED(mutex_);

  // How long the present round of callbacks, or the wait of a posted function, has lasted. Posts an
  // empty function, so that repeated calls detect a thread that does not run. Thread-safe.
  absl::Duration SilentFor() ABSL_LOCKS_EXCLUDED(mutex_);

  // Serves events until Stop, then runs what was posted before it, and returns.
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  EventLoop(UniqueFd epoll, UniqueFd wakeup);

  struct Watched {
    std::shared_ptr<Callback> readable;
    std::shared_ptr<Callback> writable;  // null: not watched
  };

  void Serve(int fd, uint32_t events);
  int MillisToNextTimer() const;
  void RunPosted() ABSL_LOCKS_EXCLUDED(mutex_);

  UniqueFd epoll_;
  UniqueFd wakeup_;  // eventfd
  absl::flat_hash_map<int, Watched> watched_;
  Timers timers_;
  std::atomic<int64_t> round_began_ns_{0};  // 0: waiting

  absl::Mutex mutex_;
  std::vector<Callback> posted_ ABSL_GUARDED_BY(mutex_);
  int64_t posted_since_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // oldest posted function
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

// CLOCK_MONOTONIC in nanoseconds.
int64_t MonotonicNanos();

// epoll_ctl: has `epoll` watch `fd` for `events`, whose data is the descriptor itself.
absl::Status ControlEpoll(int epoll, int operation, int fd, uint32_t events);

}  // namespace bulkhead
