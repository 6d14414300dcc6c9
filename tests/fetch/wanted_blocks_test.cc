#include "server/fetch/wanted_blocks.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <utility>
#include <vector>

namespace bulkhead {
namespace {

TEST(WantedBlocksTest, ABlockIsWantedUntilTheLastRequestForItGoes) {
  WantedBlocks wanted;
  wanted.Add(3, 8);
  wanted.Add(5, 12);
  wanted.Remove(3, 8);
  EXPECT_FALSE(wanted.Has(4));
  EXPECT_TRUE(wanted.Has(5) && wanted.Has(11));
  EXPECT_FALSE(wanted.Has(12));
  wanted.Remove(5, 12);
  EXPECT_TRUE(wanted.empty());
}

TEST(WantedBlocksTest, AnObjectOfAnySizeIsOneRange) {
  WantedBlocks wanted;
  for (int i = 0; i < 1000; ++i) wanted.Add(0, uint64_t{1} << 60);
  EXPECT_TRUE(wanted.Has(uint64_t{1} << 50));
  for (int i = 0; i < 1000; ++i) wanted.Remove(0, uint64_t{1} << 60);
  EXPECT_TRUE(wanted.empty());
}

TEST(WantedBlocksTest, CountsAsAnArrayDoes) {
  std::mt19937 random(1);
  WantedBlocks wanted;
  std::array<int, 40> counts{};
  std::vector<std::pair<uint64_t, uint64_t>> requests;
  for (int step = 0; step < 5000; ++step) {
    if (requests.size() < 8 && random() % 2 == 0) {
      const uint64_t begin = random() % counts.size();
      requests.emplace_back(begin, begin + random() % (counts.size() - begin + 1));
      wanted.Add(requests.back().first, requests.back().second);
      for (uint64_t i = begin; i < requests.back().second; ++i) ++counts[i];
    } else if (!requests.empty()) {
      const auto gone = requests.begin() + static_cast<ptrdiff_t>(random() % requests.size());
      wanted.Remove(gone->first, gone->second);
      for (uint64_t i = gone->first; i < gone->second; ++i) --counts[i];
      requests.erase(gone);
    }
    for (uint64_t i = 0; i < counts.size(); ++i) ASSERT_EQ(wanted.Has(i), counts[i] > 0) << step;
    ASSERT_EQ(wanted.empty(), counts == decltype(counts){}) << step;
  }
}

}  // namespace
}  // namespace bulkhead
