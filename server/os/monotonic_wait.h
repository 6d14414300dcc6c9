#pragma once

#include <algorithm>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/os/event_loop.h"

namespace bulkhead {

// A wait on absl::Mutex with a timeout by CLOCK_MONOTONIC. absl::Mutex itself uses the wall clock,
// so setting that back by an hour prolongs its waits by an hour. Polls `condition` every 10 ms, so
// use it for few waits. False after `patience`.
template <typename Condition>
bool AwaitFor(absl::Mutex& mutex, const Condition& condition, absl::Duration patience)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  const int64_t begin_ns = MonotonicNanos();
  for (absl::Duration pause = absl::Microseconds(200); !condition();
       pause = std::min(pause * 2, absl::Milliseconds(10))) {
    const absl::Duration left = patience - absl::Nanoseconds(MonotonicNanos() - begin_ns);
    if (left <= absl::ZeroDuration()) return false;
    mutex.Unlock();
    absl::SleepFor(std::min(pause, left));
    mutex.Lock();
  }
  return true;
}

// The same for a notification.
inline bool AwaitFor(const absl::Notification& notification, absl::Duration patience) {
  absl::Mutex mutex;
  absl::MutexLock lock(&mutex);
  return AwaitFor(
      mutex, [&] { return notification.HasBeenNotified(); }, patience);
}

}  // namespace bulkhead
