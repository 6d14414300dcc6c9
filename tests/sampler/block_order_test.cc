#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/sampler/order_records.h"

namespace bulkhead {
namespace {

std::string Block(uint64_t block_size, uint64_t window) {
  return absl::StrCat("block { block_size: ", block_size, " window: ", window, " }");
}

TEST(BlockOrderTest, IsABijectionForEverySmallSize) {
  for (uint64_t count = 1; count <= 40; ++count) {
    for (uint64_t block_size = 1; block_size <= 12; ++block_size) {
      for (uint64_t window = 1; window <= 6; ++window) {
        const auto order = OrderOf(Block(block_size, window), 5, {count});
        for (uint64_t epoch = 0; epoch < 3; ++epoch) {
          ASSERT_TRUE(IsPermutation(Records(*order, epoch, count)))
              << count << " records, " << Block(block_size, window) << ", epoch " << epoch;
        }
      }
    }
  }
}

// Cuts an epoch into windows by what its records say: as many blocks as a window may have, each of
// them whole. Returns the number of windows, or −1.
int Windows(const std::vector<uint64_t>& records, uint64_t block_size, uint64_t window) {
  const uint64_t count = records.size();
  const uint64_t blocks = (count + block_size - 1) / block_size;
  int windows = 0;
  for (uint64_t position = 0, left = blocks; position < count; ++windows) {
    std::set<uint64_t> of_window;
    uint64_t expected = 0;
    const uint64_t wanted = std::min(window, left);
    for (uint64_t i = position; i < count && of_window.size() < wanted; ++i) {
      const uint64_t block = records[i] / block_size;
      if (!of_window.insert(block).second) continue;
      expected += std::min(block_size, count - block * block_size);
    }
    for (uint64_t i = position; i < position + expected; ++i) {
      if (of_window.count(records[i] / block_size) == 0) return -1;
    }
    position += expected;
    left -= wanted;
  }
  return windows;
}

TEST(BlockOrderTest, WindowsHoldWholeBlocks) {
  for (const uint64_t count : {96u, 97u, 103u}) {
    const auto order = OrderOf(Block(8, 3), 9, {count});
    std::set<uint64_t> places;  // of the last block, by window
    for (uint64_t epoch = 0; epoch < 40; ++epoch) {
      const auto records = Records(*order, epoch, count);
      ASSERT_EQ(Windows(records, 8, 3), count == 96 ? 4 : 5) << count << " epoch " << epoch;
      places.insert((std::find(records.begin(), records.end(), count - 1) - records.begin()) / 24);
    }
    EXPECT_GE(places.size(), 4) << "the last block stands in every window now and then";
  }
}

TEST(BlockOrderTest, RecordsOfAWindowAreMixed) {
  const auto records = Records(*OrderOf(Block(8, 4), 3, {320}), 0, 32);
  uint64_t changes = 0;
  for (uint64_t i = 0; i + 1 < 32; ++i) changes += records[i] / 8 != records[i + 1] / 8;
  EXPECT_GT(changes, 16);
  EXPECT_FALSE(std::is_sorted(records.begin(), records.end()));
}

TEST(BlockOrderTest, AWindowOfOneReadsBlockAfterBlock) {
  const auto records = Records(*OrderOf(Block(10, 1), 3, {100}), 0, 100);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(records[i] / 10, records[i / 10 * 10] / 10) << i;
}

TEST(BlockOrderTest, ReshufflesUnlessToldNotTo) {
  const auto order = OrderOf(Block(8, 3), 1, {1000});
  EXPECT_NE(Records(*order, 0, 50), Records(*order, 1, 50));
  EXPECT_NE(Records(*order, 0, 50), Records(*OrderOf(Block(8, 3), 2, {1000}), 0, 50));
  const auto once = OrderOf("block { block_size: 8 window: 3 reshuffle: false }", 1, {1000});
  EXPECT_EQ(Records(*once, 0, 1000), Records(*once, 7, 1000));
}

TEST(BlockOrderTest, NeverChanges) {
  EXPECT_EQ(Records(*OrderOf(Block(8, 3), 7, {1003}), 3, 8),
            (std::vector<uint64_t>{983, 981, 507, 289, 290, 977, 291, 509}));
}

TEST(BlockOrderTest, HugeSizesDoNotOverflow) {
  constexpr uint64_t kHuge = UINT64_MAX;
  EXPECT_TRUE(IsPermutation(Records(*OrderOf(Block(kHuge, kHuge), 1, {100}), 0, 100)));
  const auto order = OrderOf(Block(1 << 20, 1 << 20), 1, {uint64_t{1} << 62});
  EXPECT_LT(order->RecordAt(0, (uint64_t{1} << 62) - 1), uint64_t{1} << 62);
}

}  // namespace
}  // namespace bulkhead
