#ifndef BULKHEAD_SERVER_OS_EVENT_LOOP_H_
#define BULKHEAD_SERVER_OS_EVENT_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// One thread's world: descriptors, timers and posted functions, served one after another, so that
// whatever lives on the loop needs no lock. Time is CLOCK_MONOTONIC.
//
// Life: Create → (any thread) Post … → Run on the owning thread → Stop. Post and Stop are
// thread-safe; all else belongs to the thread that calls Run, or to any single thread before Run is
// called.
class EventLoop {
 public:
  using Callback = std::function<void()>;
  using TimerId = uint64_t;

  static absl::StatusOr<std::unique_ptr<EventLoop>> Create();

  // Calls `callback` whenever `fd` is readable or its peer hung up, until Unwatch. The descriptor
  // stays the caller's.
  absl::Status Watch(int fd, Callback callback);
  // Calls `callback` whenever the watched `fd` can take more, until UnwatchWritable or Unwatch.
  absl::Status WatchWritable(int fd, Callback callback);
  void UnwatchWritable(int fd);
  // Ends both. To be called before the descriptor is closed, or at the latest before the loop goes
  // on: another file may get its number. Safe inside callbacks, the descriptor's own included.
  void Unwatch(int fd);
  // Descriptors that are watched.
  size_t watched() const { return watched_.size(); }

  // Calls `callback` once, after `delay`.
  TimerId After(absl::Duration delay, Callback callback);
  void Cancel(TimerId timer);

  // Runs `callback` on the loop's thread, soon. After Stop it may never run.
  void Post(Callback callback) ABSL_LOCKS_EXCLUDED(mutex_);

  // For how long the loop's thread has been at one round of callbacks, or what was posted has not
  // been begun. Posts an empty function, so that a thread that does not run is noticed by a caller
  // who asks again. Thread-safe.
  absl::Duration SilentFor() ABSL_LOCKS_EXCLUDED(mutex_);

  // Serves events until Stop; then runs what was posted before it, and returns.
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  EventLoop(UniqueFd epoll, UniqueFd wakeup);

  struct Watched {
    std::shared_ptr<Callback> readable;
    std::shared_ptr<Callback> writable;  // null: not asked for
  };

  void Serve(int fd, uint32_t events);
  int MillisToNextTimer() const;
  void RunTimers();
  void RunPosted() ABSL_LOCKS_EXCLUDED(mutex_);

  UniqueFd epoll_;
  UniqueFd wakeup_;  // eventfd
  absl::flat_hash_map<int, Watched> watched_;
  std::map<std::pair<int64_t, TimerId>, Callback> timers_;  // by deadline in ns
  absl::flat_hash_map<TimerId, int64_t> deadlines_;
  TimerId next_timer_ = 1;
  std::atomic<int64_t> round_began_ns_{0};  // 0: it waits

  absl::Mutex mutex_;
  std::vector<Callback> posted_ ABSL_GUARDED_BY(mutex_);
  int64_t posted_since_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // the first of them
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

// CLOCK_MONOTONIC in nanoseconds.
int64_t MonotonicNanos();

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_EVENT_LOOP_H_
