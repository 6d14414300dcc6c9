#include <set>

#include "tests/sampler/order_records.h"

namespace bulkhead {
namespace {

TEST(SequentialOrderTest, IsTheSourcesOwn) {
  const auto order = OrderOf("sequential {}", 1, {4, 6});
  for (uint64_t position = 0; position < 10; ++position) {
    EXPECT_EQ(order->RecordAt(3, position), position);
  }
}

// The files' order as the records tell it; −1 for an epoch that is not file after file.
std::vector<int> FilesOf(const SampleOrder& order, uint64_t epoch,
                         const std::vector<uint64_t>& files) {
  std::vector<int> found;
  for (uint64_t position = 0; position < Sum(files);) {
    const uint64_t record = order.RecordAt(epoch, position);
    uint64_t first = 0;
    int file = 0;
    while (record >= first + files[file]) first += files[file++];
    found.push_back(record == first ? file : -1);
    for (uint64_t i = 0; i < files[file]; ++i) {
      if (order.RecordAt(epoch, position + i) != first + i) return {-1};
    }
    position += files[file];
  }
  return found;
}

TEST(SequentialOrderTest, ShufflesFilesAndLeavesTheirRecords) {
  const std::vector<uint64_t> files = {3, 0, 1, 4};
  const auto order = OrderOf("sequential { shuffle_files: true }", 1, files);
  std::set<std::vector<int>> orders;
  for (uint64_t epoch = 0; epoch < 60; ++epoch) orders.insert(FilesOf(*order, epoch, files));
  const std::set<std::vector<int>> all = {{0, 2, 3}, {0, 3, 2}, {2, 0, 3},
                                          {2, 3, 0}, {3, 0, 2}, {3, 2, 0}};
  EXPECT_EQ(orders, all);
}

TEST(SequentialOrderTest, WithoutReshuffleEveryEpochIsTheSame) {
  const std::vector<uint64_t> files(20, 2);
  const auto once = OrderOf("sequential { shuffle_files: true reshuffle: false }", 1, files);
  EXPECT_EQ(Records(*once, 0, 40), Records(*once, 7, 40));
  EXPECT_NE(Records(*once, 0, 40), Records(*OrderOf("sequential {}", 1, files), 0, 40));
}

TEST(SequentialOrderTest, EpochsMayBeAskedForInAnyOrder) {
  const std::vector<uint64_t> files(20, 2);
  const auto order = OrderOf("sequential { shuffle_files: true }", 1, files);
  const auto first = Records(*order, 0, 40);
  const auto second = Records(*order, 1, 40);
  const auto third = Records(*order, 2, 40);
  EXPECT_NE(first, second);
  EXPECT_EQ(Records(*order, 0, 40), first);
  EXPECT_EQ(Records(*order, 2, 40), third);
  EXPECT_EQ(Records(*order, 1, 40), second);
}

}  // namespace
}  // namespace bulkhead
