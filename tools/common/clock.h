#pragma once

#include "absl/time/time.h"
#include "server/os/event_loop.h"

namespace bulkhead::tools {

// The time by a clock that nobody sets. Says nothing but how much later it is than another one.
inline absl::Time SteadyNow() { return absl::FromUnixNanos(MonotonicNanos()); }

}  // namespace bulkhead::tools
