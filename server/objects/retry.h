#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/objects/curl.h"
#include "server/objects/store_config.h"

namespace bulkhead {

// Whether the same request may succeed if it is sent again: an answer 408, 429, 500, 502, 503 or
// 504, one whose XML has the code RequestTimeout, SlowDown or InternalError, or none because of the
// network.
bool IsTransient(const HttpResponse& response, absl::string_view store_code);

// The time that the header Retry-After asks for, in either of its forms; zero without one.
absl::Duration RetryAfter(const HttpHead& head, absl::Time now);

// Waits between attempts: exponential back-off with full jitter (AWS Architecture Blog,
// "Exponential Backoff And Jitter"), so that many clients of one store do not ask at once again.
class Backoff {
 public:
  Backoff(const StoreLimits& limits, uint64_t seed) : limits_(limits), state_(seed) {}

  // The wait after attempt number `attempt`, 1 or more: random up to first_backoff · 2^(attempt-1),
  // and at least what the store asks for, up to most_retry_after.
  absl::Duration After(int attempt, absl::Duration asked_for);

 private:
  const StoreLimits limits_;
  uint64_t state_;
};

}  // namespace bulkhead
