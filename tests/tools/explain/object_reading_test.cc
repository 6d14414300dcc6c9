#include "tools/explain/object_reading.h"

#include "gmock/gmock.h"

namespace bulkhead::tools {
namespace {

constexpr uint64_t kBlock = 16 << 10;
constexpr uint64_t kOneMiB = 1 << 20;

BlockCount CountOf(uint64_t object_bytes) {
  return BlockCount({{"a", object_bytes}, {"b", kOneMiB}});
}

TEST(ObjectReadingTest, ARecordCostsItsBlocks) {
  BlockCount count = CountOf(kOneMiB);
  count.Add({{"a", 100, 200}});
  EXPECT_EQ(count.bytes(), kBlock);
  count.Add({{"a", kBlock - 1, kBlock + 1}});
  EXPECT_EQ(count.bytes(), 2 * kBlock) << "the first one is here";
  EXPECT_EQ(count.requests(), 2u);
  count.Add({{"b", 0, 1}, {"a", 10 * kBlock, 11 * kBlock}});
  EXPECT_EQ(count.bytes(), 4 * kBlock);
  EXPECT_EQ(count.requests(), 4u);
}

TEST(ObjectReadingTest, NeighboursOfABatchAreOneRequest) {
  BlockCount count = CountOf(kOneMiB);
  count.Add({{"a", 3 * kBlock, 5 * kBlock}, {"a", 0, 3 * kBlock}});
  EXPECT_EQ(count.bytes(), 5 * kBlock);
  EXPECT_EQ(count.requests(), 1u);
}

TEST(ObjectReadingTest, LongRangesAreReadInParts) {
  BlockCount count = CountOf(100 * kOneMiB);
  count.Add({{"a", 0, 10 * kOneMiB}});
  EXPECT_EQ(count.requests(), 3u);
  EXPECT_EQ(count.bytes(), 10 * kOneMiB);
}

TEST(ObjectReadingTest, TheLastBlockEndsWithTheObject) {
  BlockCount count = CountOf(kBlock + 7);
  count.Add({{"a", kBlock + 1, kBlock + 7}});
  EXPECT_EQ(count.bytes(), 7u);
}

TEST(ObjectReadingTest, ObjectsOfATableAreReadWholeAndOnce) {
  BlockCount count = CountOf(kOneMiB);
  count.Add({{"table", 7, 8, 5000}, {"a", 0, 1}, {"table", 3, 4, 100}});
  count.Add({{"table", 7, 8, 5000}});
  EXPECT_EQ(count.bytes(), 5100 + kBlock);
  EXPECT_EQ(count.requests(), 3u);
}

TEST(ObjectReadingTest, SmallGapsThatAreHereAreReadWithTheRest) {
  BlockCount count = CountOf(kOneMiB);
  count.Add({{"a", 2 * kBlock, 3 * kBlock}});
  count.Add({{"a", 20 * kBlock, 30 * kBlock}});
  count.Add({{"a", 0, 40 * kBlock}});
  EXPECT_EQ(count.requests(), 2u + 2u);
  EXPECT_EQ(count.bytes(), (1 + 10 + 20 + 10) * kBlock);
}

}  // namespace
}  // namespace bulkhead::tools
