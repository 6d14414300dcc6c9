#pragma once

#include <vector>

namespace bulkhead::tools {

// A slope, and between which values it lies with a confidence of 95 %.
struct SlopeEstimate {
  double low = 0;
  double slope = 0;
  double high = 0;
};

// The Theil–Sen estimate of how much `values` grow from one to the next: the median of the slopes
// of all pairs. The bounds are Sen's (1968), from the variance of Kendall's statistic without ties.
// Zeros for fewer than three values. Takes time in proportion to the square of their number, so of
// more than 2,000 every n-th counts.
SlopeEstimate TheilSen(const std::vector<double>& values);

}  // namespace bulkhead::tools
