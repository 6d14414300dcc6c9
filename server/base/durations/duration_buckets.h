#pragma once

#include <algorithm>
#include <array>
#include <bit>
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

// The bucket of the shortest duration with so many bits. No two bounds have as many.
inline constexpr auto kBucketOfBits = [] {
  std::array<uint8_t, 64> buckets{};
  for (size_t bits = 1; bits < buckets.size(); ++bits) {
    const int64_t shortest = int64_t{1} << (bits - 1);
    buckets[bits] = static_cast<uint8_t>(
        std::lower_bound(kDurationBounds.begin(), kDurationBounds.end(), shortest) -
        kDurationBounds.begin());
  }
  return buckets;
}();

// The bucket of a duration. A duration that equals a bound lies below it. Without branches: the
// workers ask for each stage of each sample.
inline size_t DurationBucket(int64_t nanos) {
  const auto positive = static_cast<uint64_t>(std::max<int64_t>(nanos, 0));
  const size_t bucket = kBucketOfBits[static_cast<size_t>(std::bit_width(positive))];
  const int64_t bound = kDurationBounds[std::min(bucket, kDurationBounds.size() - 1)];
  return bucket + (bucket < kDurationBounds.size() && nanos > bound ? 1 : 0);
}

}  // namespace bulkhead
