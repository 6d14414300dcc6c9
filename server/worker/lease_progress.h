#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "server/os/event_loop.h"

namespace bulkhead {

// Reports that a worker's leases make progress, at most once per interval, however many of its
// threads note it. Thread-safe; `tell` is called from these threads.
class LeaseProgress {
 public:
  LeaseProgress(std::function<void()> tell, absl::Duration interval)
      : tell_(std::move(tell)), interval_ns_(absl::ToInt64Nanoseconds(interval)) {}

  void Note() {
    const int64_t now_ns = MonotonicNanos();
    int64_t last_ns = told_ns_.load(std::memory_order_relaxed);
    if (now_ns - last_ns < interval_ns_) return;
    // Only one of the threads that see that it is time calls `tell`.
    if (told_ns_.compare_exchange_strong(last_ns, now_ns)) tell_();
  }

 private:
  const std::function<void()> tell_;
  const int64_t interval_ns_;
  std::atomic<int64_t> told_ns_{MonotonicNanos()};
};

}  // namespace bulkhead
