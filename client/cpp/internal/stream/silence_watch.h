#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace bulkhead::client_internal {

// Tells when a peer that should speak has been silent for too long. Its owner looks once a slice;
// what passed between two looks counts as two slices at most, so that a program that was itself
// stopped for an hour listens before it judges. Not thread-safe.
class SilenceWatch {
 public:
  explicit SilenceWatch(absl::Duration limit) : limit_(limit) {}

  absl::Duration slice() const { return limit_ / 10; }
  // Something came. The first time starts the watch.
  void Heard() {
    listening_ = true;
    silent_ = absl::ZeroDuration();
  }
  // So long passed since the last look.
  void Passed(absl::Duration passed) { silent_ += std::min(passed, 2 * slice()); }
  bool too_long() const { return listening_ && silent_ >= limit_; }
  // Nothing is expected any more.
  void Stop() { listening_ = false; }

 private:
  const absl::Duration limit_;
  absl::Duration silent_;
  bool listening_ = false;
};

}  // namespace bulkhead::client_internal
