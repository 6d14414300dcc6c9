#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace bulkhead::client_internal {

// Time that has passed, by the monotonic clock.
class Stopwatch {
 public:
  absl::Duration elapsed() const {
    return absl::FromChrono(std::chrono::steady_clock::now() - start_);
  }
  // Leaves `time` out of what is counted: moves the start to `time` later.
  void Exclude(absl::Duration time) { start_ += absl::ToChronoNanoseconds(time); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// "1.25s", in whole milliseconds.
std::string SecondsText(absl::Duration time);

// A deadline, by the monotonic clock.
class Deadline {
 public:
  explicit Deadline(absl::Duration allowed) : allowed_(allowed) {}

  // Never negative.
  absl::Duration left() const {
    return std::max(allowed_ - watch_.elapsed(), absl::ZeroDuration());
  }
  bool passed() const { return left() <= absl::ZeroDuration(); }

 private:
  absl::Duration allowed_;
  Stopwatch watch_;
};

// Tells threads that something which an absl::Mutex guards has changed. absl's own timed waits
// follow the wall clock, and are shortened or prolonged when that clock is set. Waits here follow
// the monotonic clock.
class Signal {
 public:
  void Notify() { condition_.notify_all(); }

  // Unlocks `mutex`, waits for a notification but at most `longest`, and locks it again. May return
  // early for no reason.
  void Wait(absl::Mutex* mutex, absl::Duration longest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  std::condition_variable_any condition_;
};

}  // namespace bulkhead::client_internal
