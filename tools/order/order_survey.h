#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/sampler/order.h"

namespace bulkhead::tools {

// What an order looks like over the first positions of an epoch.
struct OrderSurvey {
  uint64_t positions = 0;  // that were looked at
  // The longest stretch of positions whose records all come from one file; the first of several.
  uint64_t longest_run = 0;
  uint64_t longest_run_position = 0;
  size_t longest_run_file = 0;
  // Of each position's record with the next one's: 1 for a sequential order, about 0 for a shuffle.
  // Not a number for fewer than two records.
  double serial_correlation = 0;
};

// Looks at `positions` positions, one by one.
OrderSurvey SurveyOrder(const SampleOrder& order, uint64_t epoch, uint64_t positions,
                        absl::Span<const uint64_t> file_records);

// At most `wanted` of `positions` positions, ascending: all of them, or one at random (always the
// same) out of each of equally long stretches; a fixed step could beat with the order's own rhythm.
std::vector<uint64_t> PickPositions(uint64_t positions, uint64_t wanted);

}  // namespace bulkhead::tools
