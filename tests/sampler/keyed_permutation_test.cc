#include "server/sampler/keyed_permutation.h"

#include <gtest/gtest.h>

#include <vector>

namespace bulkhead {
namespace {

TEST(KeyedPermutationTest, GoesBothWays) {
  for (uint64_t count = 1; count <= 300; ++count) {
    const KeyedPermutation permutation(count * 3, count);
    std::vector<bool> seen(count);
    for (uint64_t index = 0; index < count; ++index) {
      const uint64_t value = permutation.At(index);
      ASSERT_LT(value, count);
      ASSERT_FALSE(seen[value]);
      seen[value] = true;
      ASSERT_EQ(permutation.IndexOf(value), index) << count;
    }
  }
}

TEST(KeyedPermutationTest, TakesTheLargestCounts) {
  for (const uint64_t count : {uint64_t{1} << 32, (uint64_t{1} << 62) + 1, UINT64_MAX}) {
    const KeyedPermutation permutation(5, count);
    const uint64_t value = permutation.At(count - 1);
    EXPECT_LT(value, count);
    EXPECT_EQ(permutation.IndexOf(value), count - 1);
  }
}

}  // namespace
}  // namespace bulkhead
