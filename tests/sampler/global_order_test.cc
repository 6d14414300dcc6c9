#include "tests/sampler/order_records.h"

namespace bulkhead {
namespace {

TEST(GlobalOrderTest, IsABijectionForEverySmallSize) {
  for (uint64_t count = 1; count <= 300; ++count) {
    ASSERT_TRUE(IsPermutation(Records(*OrderOf("global {}", 5, {count}), 2, count))) << count;
  }
}

TEST(GlobalOrderTest, DependsOnSeedAndEpoch) {
  const auto order = OrderOf("global {}", 1, {1000});
  EXPECT_NE(Records(*order, 0, 50), Records(*order, 1, 50));
  EXPECT_NE(Records(*order, 0, 50), Records(*OrderOf("global {}", 2, {1000}), 0, 50));
  EXPECT_EQ(Records(*order, 1, 50), Records(*OrderOf("global {}", 1, {1000}), 1, 50));
}

TEST(GlobalOrderTest, WithoutReshuffleEveryEpochIsTheSame) {
  const auto order = OrderOf("global { reshuffle: false }", 1, {1000});
  EXPECT_EQ(Records(*order, 0, 1000), Records(*order, 7, 1000));
}

// Cursors in people's checkpoints rely on it.
TEST(GlobalOrderTest, NeverChanges) {
  EXPECT_EQ(Records(*OrderOf("global {}", 7, {1000}), 3, 8),
            (std::vector<uint64_t>{110, 159, 921, 777, 845, 697, 641, 580}));
}

TEST(GlobalOrderTest, FilesDoNotMatter) {
  EXPECT_EQ(Records(*OrderOf("global {}", 7, {400, 0, 600}), 0, 1000),
            Records(*OrderOf("global {}", 7, {1000}), 0, 1000));
}

}  // namespace
}  // namespace bulkhead
