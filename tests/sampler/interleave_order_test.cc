#include <cstdlib>
#include <deque>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/sampler/order_records.h"

namespace bulkhead {
namespace {

std::string Interleave(uint64_t cycle_length, uint64_t block_length) {
  return absl::StrCat("interleave { cycle_length: ", cycle_length, " block_length: ", block_length,
                      " }");
}

// The rule, step by step: slots in turn; a file that meets its end loses its turn.
std::vector<uint64_t> BruteForce(const std::vector<uint64_t>& files, uint64_t cycle_length,
                                 uint64_t block_length) {
  std::deque<std::deque<uint64_t>> waiting;
  uint64_t record = 0;
  for (const uint64_t count : files) {
    waiting.emplace_back();
    for (uint64_t i = 0; i < count; ++i) waiting.back().push_back(record++);
  }
  std::vector<std::deque<uint64_t>> slots(cycle_length);
  std::vector<bool> open(cycle_length);
  std::vector<uint64_t> order;
  while (order.size() < record) {
    for (uint64_t slot = 0; slot < cycle_length; ++slot) {
      if (!open[slot]) {
        if (waiting.empty()) continue;
        slots[slot] = waiting.front();
        waiting.pop_front();
        open[slot] = true;
      }
      for (uint64_t i = 0; i < block_length && open[slot]; ++i) {
        open[slot] = !slots[slot].empty();
        if (!open[slot]) break;
        order.push_back(slots[slot].front());
        slots[slot].pop_front();
      }
    }
  }
  return order;
}

TEST(InterleaveOrderTest, IsTensorFlows) {
  const char* root = std::getenv("BULKHEAD_SOURCE_DIR");
  std::ifstream golden(
      absl::StrCat(root == nullptr ? "." : root, "/tests/sampler/interleave_golden.txt"));
  int cases = 0;
  for (std::string line; std::getline(golden, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream text(line);
    uint64_t cycle_length = 0;
    uint64_t block_length = 0;
    std::string word;
    text >> cycle_length >> block_length >> word;
    std::vector<uint64_t> files;
    std::vector<uint64_t> expected;
    while (text >> word && word != ":") files.push_back(std::stoull(word));
    while (text >> word) expected.push_back(std::stoull(word));
    const auto order = OrderOf(Interleave(cycle_length, block_length), 1, files);
    ASSERT_EQ(Records(*order, 0, Sum(files)), expected) << line;
    ASSERT_EQ(BruteForce(files, cycle_length, block_length), expected) << line;
    ++cases;
  }
  EXPECT_EQ(cases, 71) << "run this through ctest, or in the source folder";
}

TEST(InterleaveOrderTest, MatchesBruteForce) {
  std::mt19937_64 dice(11);
  for (int i = 0; i < 3000; ++i) {
    std::vector<uint64_t> files(1 + dice() % 20);
    for (uint64_t& count : files) count = dice() % 3 == 0 ? dice() % 40 : dice() % 6;
    if (Sum(files) == 0) continue;
    const uint64_t cycle_length = 1 + dice() % 22;
    const uint64_t block_length = 1 + dice() % 7;
    const auto order = OrderOf(Interleave(cycle_length, block_length), 1, files);
    ASSERT_EQ(Records(*order, 0, Sum(files)), BruteForce(files, cycle_length, block_length))
        << Interleave(cycle_length, block_length) << " " << absl::StrJoin(files, ",");
  }
}

TEST(InterleaveOrderTest, ManyFilesEndTogether) {
  std::vector<uint64_t> files;
  for (uint64_t i = 0; i < 600; ++i) files.push_back(i * 7 % 11);
  for (const uint64_t cycle_length : {64u, 599u, 600u, 5000u}) {
    const auto order = OrderOf(Interleave(cycle_length, 2), 1, files);
    EXPECT_EQ(Records(*order, 0, Sum(files)), BruteForce(files, cycle_length, 2)) << cycle_length;
  }
}

TEST(InterleaveOrderTest, HugeLengthsDoNotOverflow) {
  const std::vector<uint64_t> files = {3, 5};
  const auto order = OrderOf(Interleave(UINT64_MAX, UINT64_MAX), 1, files);
  EXPECT_EQ(Records(*order, 0, 8), (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

// Every epoch is an interleaving of another order of the files.
TEST(InterleaveOrderTest, ShufflesFiles) {
  const std::vector<uint64_t> files(30, 4);
  const auto shuffled =
      OrderOf("interleave { cycle_length: 3 block_length: 1 shuffle_files: true }", 1, files);
  const auto plain = Records(*OrderOf(Interleave(3, 1), 1, files), 0, 120);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    const auto records = Records(*shuffled, epoch, 120);
    EXPECT_TRUE(IsPermutation(records));
    EXPECT_NE(records, plain);
    EXPECT_NE(records, Records(*shuffled, epoch + 1, 120));
    // Files are equally long: at each position stands the same record of some file.
    for (uint64_t i = 0; i < 120; ++i) ASSERT_EQ(records[i] % 4, plain[i] % 4) << i;
  }
  const auto once =
      OrderOf("interleave { cycle_length: 3 block_length: 1 shuffle_files: true reshuffle: false }",
              1, files);
  EXPECT_EQ(Records(*once, 0, 120), Records(*once, 5, 120));
  EXPECT_NE(Records(*once, 0, 120), plain);
}

TEST(InterleaveOrderTest, ThreadsMayAskForDifferentEpochs) {
  const std::vector<uint64_t> files = {40, 7, 90, 13, 60, 60, 2};
  const std::string text = "interleave { cycle_length: 3 block_length: 2 shuffle_files: true }";
  std::vector<std::vector<uint64_t>> expected;
  for (uint64_t epoch = 0; epoch < 4; ++epoch) {
    expected.push_back(Records(*OrderOf(text, 1, files), epoch, Sum(files)));
  }
  const auto order = OrderOf(text, 1, files);
  std::vector<int> equal(4);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t epoch = t; epoch < t + 4; ++epoch) {
        equal[t] += Records(*order, epoch % 4, Sum(files)) == expected[epoch % 4] ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(4, 4));
}

}  // namespace
}  // namespace bulkhead
