#include "server/sampler/variant_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace bulkhead {
namespace {

TEST(VariantCacheTest, KeepsTheLastTwo) {
  VariantCache<uint64_t> cache;
  std::vector<uint64_t> made;
  for (const uint64_t variant : {4, 4, 5, 4, 5, 6, 5, 4}) {
    const auto table = cache.Get(variant, [&](uint64_t wanted) {
      made.push_back(wanted);
      return std::make_unique<uint64_t>(wanted);
    });
    EXPECT_EQ(*table, variant);
  }
  EXPECT_EQ(made, (std::vector<uint64_t>{4, 5, 6, 4}));
}

TEST(VariantCacheTest, ATableInUseOutlivesItsPlace) {
  VariantCache<uint64_t> cache;
  const auto make = [](uint64_t variant) { return std::make_unique<uint64_t>(variant); };
  const auto first = cache.Get(1, make);
  cache.Get(2, make);
  cache.Get(3, make);
  EXPECT_EQ(*first, 1);
}

}  // namespace
}  // namespace bulkhead
