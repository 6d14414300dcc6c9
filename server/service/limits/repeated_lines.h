#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/base/rate_limit.h"

namespace bulkhead {

// The end of a line; `untold`: of RepeatedLines::Take.
inline std::string UntoldText(uint64_t untold, absl::string_view what) {
  return untold == 0 ? "" : absl::StrCat("; ", untold, " ", what, " before it got no line");
}

// Which events of a kind get a line in the log, such as refused streams: a client that tries again
// and again would otherwise be most of it. Thread-safe.
class RepeatedLines {
 public:
  static constexpr double kAtOnce = 20;
  static constexpr double kPerSecond = 0.2;

  // Absent: this one gets no line. Else the number of those before it that got none since the last
  // line. `now_ns` as MonotonicNanos.
  std::optional<uint64_t> Take(int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (lines_.Take(now_ns)) return std::exchange(untold_, 0);
    ++untold_;
    return std::nullopt;
  }

 private:
  absl::Mutex mutex_;
  RateLimit lines_ ABSL_GUARDED_BY(mutex_){kPerSecond, kAtOnce};
  uint64_t untold_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace bulkhead
