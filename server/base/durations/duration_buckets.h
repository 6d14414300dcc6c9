#ifndef BULKHEAD_SERVER_BASE_DURATIONS_DURATION_BUCKETS_H_
#define BULKHEAD_SERVER_BASE_DURATIONS_DURATION_BUCKETS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace bulkhead {

// The buckets of every histogram of durations: upper bounds in nanoseconds, about three times as
// long one after the other, from 0.1 ms to 10 s. One more bucket holds what is longer.
inline constexpr std::array<int64_t, 11> kDurationBounds = {
    100'000,     300'000,     1'000'000,     3'000'000,     10'000'000,    30'000'000,
    100'000'000, 300'000'000, 1'000'000'000, 3'000'000'000, 10'000'000'000};
inline constexpr size_t kDurationBuckets = kDurationBounds.size() + 1;

// Durations, by bucket.
using DurationCounts = std::array<uint64_t, kDurationBuckets>;

// The bucket of a duration. A duration that equals a bound lies below it.
inline size_t DurationBucket(int64_t nanos) {
  const auto* const bound = std::lower_bound(kDurationBounds.begin(), kDurationBounds.end(), nanos);
  return static_cast<size_t>(bound - kDurationBounds.begin());
}

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_BASE_DURATIONS_DURATION_BUCKETS_H_
