#include "server/worker/mapping_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <tuple>
#include <vector>

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Parts = std::vector<std::tuple<uint32_t, uint64_t, int>>;  // stage, bytes, fewer ranges

class MappingTableTest : public testing::Test {
 protected:
  Parts Remove(uintptr_t begin, uint64_t bytes) {
    Parts parts;
    table_->Remove(begin, bytes, [&](const MappingTable::Removed& removed) {
      parts.emplace_back(removed.stage, removed.bytes, removed.ranges);
    });
    return parts;
  }

  const std::unique_ptr<MappingTable> table_ = std::make_unique<MappingTable>();
};

TEST_F(MappingTableTest, ForgetsWhatItWasTold) {
  EXPECT_TRUE(table_->Add(1000, 100, 5));
  EXPECT_TRUE(table_->Add(2000, 100, 6));
  EXPECT_THAT(Remove(1000, 100), ElementsAre(std::tuple(5, 100, 1)));
  EXPECT_THAT(Remove(1000, 100), IsEmpty());
  EXPECT_THAT(Remove(2000, 100), ElementsAre(std::tuple(6, 100, 1)));
}

TEST_F(MappingTableTest, RangesAreCutWherePartsGo) {
  ASSERT_TRUE(table_->Add(1000, 100, 5));
  EXPECT_THAT(Remove(900, 110), ElementsAre(std::tuple(5, 10, 0)));   // its beginning
  EXPECT_THAT(Remove(1090, 999), ElementsAre(std::tuple(5, 10, 0)));  // its end
  EXPECT_THAT(Remove(1040, 20), ElementsAre(std::tuple(5, 20, -1)));  // its middle
  EXPECT_THAT(Remove(1040, 20), IsEmpty());
  EXPECT_THAT(Remove(0, 9999), ElementsAre(std::tuple(5, 30, 1), std::tuple(5, 30, 1)));
}

TEST_F(MappingTableTest, OneRemovalMayMeetMany) {
  for (uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(table_->Add(1000 + 100 * i, 100, i));
  EXPECT_THAT(Remove(1150, 200), UnorderedElementsAre(std::tuple(1, 50, 0), std::tuple(2, 100, 1),
                                                      std::tuple(3, 50, 0)));
  EXPECT_THAT(Remove(0, 9999), UnorderedElementsAre(std::tuple(0, 100, 1), std::tuple(1, 50, 1),
                                                    std::tuple(3, 50, 1), std::tuple(4, 100, 1)));
}

TEST_F(MappingTableTest, IsFullAtItsCapacity) {
  for (size_t i = 0; i < MappingTable::kCapacity; ++i) ASSERT_TRUE(table_->Add(100 * i, 100, 1));
  EXPECT_FALSE(table_->Add(1 << 30, 100, 1));
  EXPECT_THAT(Remove(110, 10), ElementsAre(std::tuple(1, 90, 0)));  // no room for what is behind
  EXPECT_THAT(Remove(200, 100), ElementsAre(std::tuple(1, 100, 1)));
  EXPECT_TRUE(table_->Add(1 << 30, 100, 1));
}

}  // namespace
}  // namespace bulkhead
