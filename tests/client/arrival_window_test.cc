#include "client/cpp/internal/batch/arrival_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "client/cpp/internal/batch/layout.h"

namespace bulkhead::client_internal {
namespace {

constexpr uint64_t kWorld = 2;
constexpr uint64_t kBatch = 5;
constexpr uint64_t kBatches = 6;  // of an epoch

// Batch `number` of an epoch, when `left` of it have not been delivered after it.
v1::BatchHeader Header(uint64_t sequence, uint64_t number, uint64_t epoch, uint64_t left) {
  const bool last = number + 1 == kBatches;
  v1::BatchHeader header;
  header.set_sequence(sequence);
  header.set_epoch(epoch);
  header.set_next_epoch(last ? epoch + 1 : epoch);
  header.set_next_consumed(last ? 0 : (number + 1) * kWorld * kBatch);
  header.set_batches_left_in_epoch(left);
  return header;
}

v1::Cursor CursorOf(const ArrivalWindow& window) {
  v1::Cursor cursor;
  window.Describe(&cursor);
  return cursor;
}

std::vector<uint32_t> Completed(const v1::Cursor& cursor) {
  return {cursor.completed().begin(), cursor.completed().end()};
}

TEST(ArrivalWindowTest, AnOrderedStreamTakesOnlyTheBatchThatIsDue) {
  ArrivalWindow window(v1::Cursor(), false, kWorld, kBatch);
  EXPECT_FALSE(window.Check(Header(1, 1, 0, 4)).ok());
  EXPECT_TRUE(window.Check(Header(0, 0, 0, 5)).ok());
  window.Add(Header(0, 0, 0, 5));
  EXPECT_FALSE(window.Check(Header(0, 0, 0, 5)).ok());
  EXPECT_EQ(window.mark(), 1u);
  EXPECT_EQ(CursorOf(window).consumed(), 10u);
  EXPECT_EQ(CursorOf(window).batch_size(), 0u);
}

TEST(ArrivalWindowTest, ACursorSaysWhichBatchesAreAheadOfTheMark) {
  ArrivalWindow window(v1::Cursor(), true, kWorld, kBatch);
  window.Add(Header(2, 2, 0, 5));
  window.Add(Header(3, 3, 0, 4));
  v1::Cursor cursor = CursorOf(window);
  EXPECT_EQ(cursor.consumed(), 0u);
  EXPECT_EQ(Completed(cursor), (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(cursor.batch_size(), kBatch);
  EXPECT_EQ(cursor.world_size(), kWorld);
  EXPECT_NE(CursorToJson(cursor).find("\"completed\":[2,3],\"batch_size\":5,\"world_size\":2}"),
            std::string::npos)
      << CursorToJson(cursor);
  window.Add(Header(0, 0, 0, 3));
  EXPECT_EQ(Completed(CursorOf(window)), (std::vector<uint32_t>{1, 2}));
  window.Add(Header(1, 1, 0, 2));
  cursor = CursorOf(window);
  EXPECT_EQ(cursor.consumed(), 40u);
  EXPECT_EQ(Completed(cursor), std::vector<uint32_t>());
  EXPECT_EQ(CursorToJson(cursor).find("completed"), std::string::npos);
}

TEST(ArrivalWindowTest, RefusesWhatComesTwiceTooFarAheadOrFromTheNextEpoch) {
  ArrivalWindow window(v1::Cursor(), true, kWorld, kBatch);
  window.Add(Header(3, 3, 0, 5));
  EXPECT_FALSE(window.Check(Header(3, 3, 0, 4)).ok());
  EXPECT_FALSE(window.Check(Header(64, 5, 0, 4)).ok());
  EXPECT_TRUE(window.Check(Header(63, 5, 0, 4)).ok());
  EXPECT_FALSE(window.Check(Header(4, 4, 1, 4)).ok());
}

// From the cursor behind any batch of any order on, exactly the other batches are delivered.
TEST(ArrivalWindowTest, EveryOrderOfAnEpochCanBeResumedAnywhere) {
  std::vector<uint64_t> order = {0, 1, 2, 3, 4, 5};
  do {
    ArrivalWindow window(v1::Cursor(), true, kWorld, kBatch);
    for (uint64_t taken = 1; taken <= kBatches; ++taken) {
      const uint64_t number = order[taken - 1];
      window.Add(Header(number, number, 0, kBatches - taken));
      const v1::Cursor cursor = CursorOf(window);
      if (taken == kBatches) {
        EXPECT_EQ(cursor.epoch(), 1u);
        EXPECT_EQ(cursor.consumed(), 0u);
        EXPECT_EQ(window.mark(), kBatches);
        break;
      }
      // What the cursor leaves, in the reverse order of what came before.
      const uint64_t mark = cursor.consumed() / (kWorld * kBatch);
      ASSERT_EQ(mark, window.mark());
      const std::vector<uint32_t> completed = Completed(cursor);
      std::set<uint64_t> left(order.begin() + static_cast<int64_t>(taken), order.end());
      ArrivalWindow resumed(cursor, true, kWorld, kBatch);
      uint64_t remaining = left.size();
      for (uint64_t later = kBatches; later-- > mark;) {
        if (std::count(completed.begin(), completed.end(), later - mark) > 0) continue;
        ASSERT_EQ(left.count(later), 1u);
        const v1::BatchHeader header = Header(later - mark, later, 0, --remaining);
        ASSERT_TRUE(resumed.Check(header).ok()) << resumed.Check(header);
        resumed.Add(header);
      }
      EXPECT_EQ(remaining, 0u);
      EXPECT_EQ(CursorOf(resumed).epoch(), 1u);
      EXPECT_EQ(resumed.mark(), kBatches - mark);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace
}  // namespace bulkhead::client_internal
