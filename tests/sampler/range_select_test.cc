#include "server/sampler/range_select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace bulkhead {
namespace {

TEST(RangeSelectTest, MatchesSorting) {
  std::mt19937 dice(1);
  for (uint32_t size = 1; size <= 40; ++size) {
    std::vector<uint32_t> values(size);
    std::iota(values.begin(), values.end(), 0);
    std::shuffle(values.begin(), values.end(), dice);
    const RangeSelect select(values);
    for (uint32_t first = 0; first < size; ++first) {
      std::vector<uint32_t> tail(values.begin() + first, values.end());
      std::sort(tail.begin(), tail.end());
      for (uint32_t k = 0; k < tail.size(); ++k) ASSERT_EQ(select.Select(first, k), tail[k]);
      for (uint32_t value = 0; value < size; ++value) {
        ASSERT_EQ(select.CountBelow(first, value),
                  std::lower_bound(tail.begin(), tail.end(), value) - tail.begin());
      }
    }
  }
}

}  // namespace
}  // namespace bulkhead
