#include "server/base/durations/histogram.h"

#include <algorithm>

namespace bulkhead {

void AddDurations(const DurationCounts& counts, double seconds, v1::Histogram& histogram) {
  if (histogram.counts().empty()) {
    for (const int64_t bound : kDurationBounds) {
      histogram.add_bounds(static_cast<double>(bound) / 1e9);
    }
    histogram.mutable_counts()->Resize(static_cast<int>(kDurationBuckets), 0);
  }
  for (size_t i = 0; i < kDurationBuckets; ++i) {
    const int bucket = static_cast<int>(i);
    histogram.set_counts(bucket, histogram.counts(bucket) + counts[i]);
  }
  histogram.set_sum(histogram.sum() + seconds);
}

void AddHistogram(const v1::Histogram& more, v1::Histogram& histogram) {
  DurationCounts counts{};
  const size_t buckets = std::min(kDurationBuckets, static_cast<size_t>(more.counts_size()));
  for (size_t i = 0; i < buckets; ++i) counts[i] = more.counts(static_cast<int>(i));
  AddDurations(counts, more.sum(), histogram);
}

}  // namespace bulkhead
