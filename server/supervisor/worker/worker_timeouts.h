#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace bulkhead {

// The supervisor's timeouts. Tests shorten them.
struct PoolTimeouts {
  // Kills a worker that has work but finishes no sample, or reads no byte of what it indexes.
  absl::Duration hang = absl::Seconds(30);
  absl::Duration reap =
      absl::Seconds(10);  // after this a killed worker that has not exited is written off
  // Time for a worker to write the stacks of its Python threads when one hangs.
  absl::Duration stacks = absl::Seconds(5);
  absl::Duration start = absl::Seconds(60);  // from spawn to bound
  // The same with user code, whose imports may come from a slow mount.
  absl::Duration start_with_imports = absl::Seconds(300);
  absl::Duration first_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(10);
  absl::Duration stop_grace = absl::Seconds(2);
  absl::Duration watch = absl::Milliseconds(20);  // between looks at the memory of busy workers

  // The wait before a restart, by consecutive deaths. After one death there is none.
  absl::Duration Backoff(uint32_t deaths) const {
    if (deaths <= 1) return absl::ZeroDuration();
    return std::min(first_backoff * (1 << std::min(deaths - 2, 20u)), max_backoff);
  }
  // Interval of the looks at idle workers.
  absl::Duration CheckInterval() const { return std::min({hang / 4, reap / 4, absl::Seconds(1)}); }
};

}  // namespace bulkhead
