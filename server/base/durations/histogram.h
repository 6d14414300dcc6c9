#pragma once

#include "bulkhead/v1/loader.pb.h"
#include "server/base/durations/duration_buckets.h"

namespace bulkhead {

// Adds durations of `seconds` together to a histogram, which may be empty.
void AddDurations(const DurationCounts& counts, double seconds, v1::Histogram& histogram);
// Adds one histogram of these buckets to another.
void AddHistogram(const v1::Histogram& more, v1::Histogram& histogram);

}  // namespace bulkhead
