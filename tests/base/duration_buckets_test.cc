#include "server/base/durations/duration_buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>

namespace bulkhead {
namespace {

size_t BoundsBelow(int64_t nanos) {
  return static_cast<size_t>(std::count_if(kDurationBounds.begin(), kDurationBounds.end(),
                                           [&](int64_t bound) { return bound < nanos; }));
}

TEST(DurationBucketTest, IsTheNumberOfBoundsBelow) {
  for (const int64_t bound : kDurationBounds) {
    for (const int64_t nanos : {bound - 1, bound, bound + 1}) {
      EXPECT_EQ(DurationBucket(nanos), BoundsBelow(nanos)) << nanos;
    }
  }
  using Limits = std::numeric_limits<int64_t>;
  for (const int64_t nanos : {Limits::min(), int64_t{-1}, int64_t{0}, int64_t{1}, Limits::max()}) {
    EXPECT_EQ(DurationBucket(nanos), BoundsBelow(nanos)) << nanos;
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto nanos = static_cast<int64_t>(random() >> (random() % 64));
    ASSERT_EQ(DurationBucket(nanos), BoundsBelow(nanos)) << nanos;
  }
}

}  // namespace
}  // namespace bulkhead
